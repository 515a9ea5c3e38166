"""Looks up all that is locked in a database of known vulnerabilities, in the format of OSV: ``./dev audit``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from deploy.sbom import everything

URL_VARIABLE: Final = "OSV_URL"
ACCEPTED: Final = Path(__file__).with_name("accepted_vulnerabilities.txt")
VULNERABLE: Final = 1
UNREACHABLE: Final = 3

_URL: Final = "https://api.osv.dev/v1/querybatch"
_BATCH: Final = 500
_ANSWER_S: Final = 30.0
_BAD_REQUEST: Final = 400


class DatabaseUnreachableError(Exception):
    """The database does not answer, so nothing is known."""


def lookup(purls: Iterable[str], url: str) -> dict[str, list[str]]:
    """Return the ids of the known vulnerabilities of each package URL that has any.

    Args:
        purls: package URLs, such as ``pkg:pypi/jinja2@3.1.6``.
        url: where the database takes batches of queries.

    Raises:
        DatabaseUnreachableError: it does not answer, or not in the format of OSV.
        HTTPError: it says that the request is wrong.
    """
    found: dict[str, list[str]] = {}
    asked: Sequence[tuple[str, str | None]] = [(purl, None) for purl in purls]
    while asked:
        more: list[tuple[str, str | None]] = []
        for start in range(0, len(asked), _BATCH):
            batch = asked[start : start + _BATCH]
            for (purl, _), result in zip(batch, _answers(batch, url), strict=True):
                for each in result.get("vulns", ()):
                    found.setdefault(purl, []).append(str(each["id"]))
                if token := result.get("next_page_token"):
                    more.append((purl, token))
        asked = more
    return found


def _answers(batch: Sequence[tuple[str, str | None]], url: str) -> list[dict[str, Any]]:
    queries = [{"package": {"purl": purl}} | ({"page_token": token} if token else {}) for purl, token in batch]
    request = Request(url, json.dumps({"queries": queries}).encode(), {"Content-Type": "application/json"})  # noqa: S310 - the URL is ours, or that of who runs this
    try:
        with urlopen(request, timeout=_ANSWER_S) as answer:  # noqa: S310
            results = json.load(answer)["results"]
    except HTTPError as error:
        if error.code == _BAD_REQUEST:
            raise
        raise DatabaseUnreachableError(f"{url}: {error}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DatabaseUnreachableError(f"{url}: {error}") from error
    if not isinstance(results, list) or len(results) != len(batch):
        raise DatabaseUnreachableError(f"{url}: the answer has not one result for each query")
    return results


def accepted(text: str) -> dict[str, str]:
    """Return the reason of each vulnerability that is accepted; a line has an id, and then why."""
    lines = (line.split(maxsplit=1) for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return {words[0]: words[1] for words in lines}


def report(found: dict[str, list[str]], known: dict[str, str]) -> Iterator[str]:
    """Yield a line for each vulnerability that is not accepted, and for each accepted one that is gone."""
    for purl, ids in sorted(found.items()):
        for each in sorted(set(ids) - known.keys()):
            yield f"{purl}: {each}; take a version without it (./dev lock --upgrade), or accept it in {ACCEPTED.name}"
    for each in sorted(known.keys() - {each for ids in found.values() for each in ids}):
        yield f"{ACCEPTED.name}: {each} is accepted, but no locked version has it; remove the line"


def main() -> int:
    """Print what is found. Returns the exit code: 1 with faults, 3 if the database cannot be reached."""
    purls = [each.purl for each in everything()]
    named = [purl for purl in purls if not purl.startswith("pkg:generic/")]
    try:
        found = lookup(named, os.environ.get(URL_VARIABLE, _URL))
    except DatabaseUnreachableError as error:
        print(f"audit: NOT DONE, the database of vulnerabilities cannot be reached: {error}")  # noqa: T201
        return UNREACHABLE
    faults = list(report(found, accepted(ACCEPTED.read_text(encoding="utf-8"))))
    sys.stdout.writelines(f"{fault}\n" for fault in faults)
    without = len(purls) - len(named)
    print(  # noqa: T201
        f"audit: {len(named)} packages and jars looked up, {len(faults)} faults; "
        f"{without} jars have no coordinates to look up"
    )
    return VULNERABLE if faults else 0


if __name__ == "__main__":
    sys.exit(main())
