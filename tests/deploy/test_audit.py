"""Known vulnerabilities are found, and a database that does not answer is never taken for a clean result."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError

import pytest

from deploy import audit
from deploy.audit import UNREACHABLE, URL_VARIABLE, VULNERABLE, DatabaseUnreachableError, accepted, lookup, main, report
from deploy.sbom import everything

_KNOWN = {"pkg:pypi/old@1": ["GHSA-1", "PYSEC-2"], "pkg:maven/g/a@1": ["GHSA-3"]}


class Database(BaseHTTPRequestHandler):
    """Answers as OSV does, one vulnerability a page."""

    known = _KNOWN
    status = 200

    def do_POST(self) -> None:
        """Answer a batch of queries."""
        queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        body = json.dumps({"results": [self._result(each) for each in queries]}).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _result(self, query: dict[str, Any]) -> dict[str, Any]:
        ids = self.known.get(query["package"]["purl"], [])
        page = int(query.get("page_token", 0))
        if page >= len(ids):
            return {}
        more = {"next_page_token": str(page + 1)} if page + 1 < len(ids) else {}
        return {"vulns": [{"id": ids[page], "modified": "2026-01-01T00:00:00Z"}], **more}

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Stay silent."""


@contextmanager
def database(**attributes: object) -> Iterator[str]:
    """Serve such a database; yields its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("_Database", (Database,), attributes))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/querybatch"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_all_vulnerabilities_of_all_packages_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over several batches, and several pages of one package."""
    monkeypatch.setattr(audit, "_BATCH", 2)
    with database() as url:
        assert lookup(["pkg:pypi/a@1", "pkg:pypi/old@1", "pkg:maven/g/a@1", "pkg:pypi/b@1"], url) == _KNOWN


def test_no_answer_is_no_result(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The command says that it has looked up nothing, with an exit code of its own."""
    monkeypatch.setenv(URL_VARIABLE, "http://127.0.0.1:1/v1/querybatch")
    assert main() == UNREACHABLE
    assert "NOT DONE, the database of vulnerabilities cannot be reached" in capsys.readouterr().out


@pytest.mark.parametrize(
    "attributes", [{"status": 503}, {"_result": lambda *_: None, "do_POST": lambda self: self.send_response(200)}]
)
def test_another_answer_is_no_result(attributes: dict[str, object]) -> None:
    """Such as that of a proxy."""
    with database(**attributes) as url, pytest.raises(DatabaseUnreachableError, match=url):
        lookup(["pkg:pypi/a@1"], url)


def test_a_wrong_request_is_an_error_of_ours() -> None:
    """It is not tolerated like a database that is away."""
    with database(status=400) as url, pytest.raises(HTTPError):
        lookup(["pkg:pypi/a@1"], url)


def test_what_is_accepted_is_no_fault() -> None:
    """Until the locked version does not have it any more."""
    known = accepted("# a comment\nGHSA-1  is about another module\nGHSA-9 gone\n\n")
    assert known == {"GHSA-1": "is about another module", "GHSA-9": "gone"}
    faults = list(report(_KNOWN, known))
    assert [fault.partition(";")[0] for fault in faults] == [
        "pkg:maven/g/a@1: GHSA-3",
        "pkg:pypi/old@1: PYSEC-2",
        "accepted_vulnerabilities.txt: GHSA-9 is accepted, but no locked version has it",
    ]


def test_a_fault_fails_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It names package and vulnerability; without one, the command says how much it has looked up."""
    jar = next(each.purl for each in everything() if each.purl.startswith("pkg:maven/"))
    with database(known={jar: ["GHSA-7"]}) as url:
        monkeypatch.setenv(URL_VARIABLE, url)
        assert main() == VULNERABLE
    assert f"{jar}: GHSA-7; take a version without it" in capsys.readouterr().out
    with database(known={}) as url:
        monkeypatch.setenv(URL_VARIABLE, url)
        assert main() == 0
    assert "packages and jars looked up, 0 faults" in capsys.readouterr().out
