"""What the HTML of every page of the console has, and what it never has."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

from kafka_redelivery.cli.console import searches
from kafka_redelivery.cli.console.guard import POLICY
from kafka_redelivery.cli.console.live import Problem
from kafka_redelivery.cli.console.options import ConsoleOptions
from kafka_redelivery.consumers.operations.find import Search
from tests.unit.cli.console.consoles import client, console_of, guarded, routes

_ENDLESS = {"/events"}


class _Page(HTMLParser):
    """Collects what a page loads, and what a strict policy would refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.refused: list[str] = []
        self.labels: set[str] = set()
        self.fields: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.refused += [f"{tag} {name}" for name in given if name == "style" or name.startswith("on")]
        self.refused += [f"{tag} {each}" for each in given.values() if (each or "").strip().startswith("javascript:")]
        if tag == "style" or (tag == "script" and "src" not in given):
            self.refused.append(tag)
        for name in ("src", "href", "action"):
            if given.get(name):
                self.loaded.append(str(given[name]))
        if tag in {"script", "link"} and given.get("rel") not in {"icon", "expect"} and "integrity" not in given:
            self.refused.append(f"{tag} without integrity")
        if tag == "label":
            self.labels.add(given.get("for") or "")
        if tag in {"input", "select", "textarea"} and given.get("type") not in {"hidden", "checkbox"}:
            self.fields.append(given.get("id") or "")
        if given.get("id"):
            self.ids.append(str(given["id"]))


@pytest.mark.parametrize("hidden", [False, True])
def test_no_page_has_what_the_policy_refuses(tmp_path: Path, hidden: bool) -> None:  # noqa: FBT001 - a parameter
    """No script or style in a page, nothing from another host, each field has a label, each id is there once."""
    app = guarded(console_of(tmp_path, options=ConsoleOptions(hide_payloads=hidden)))
    browser = client(app)
    for address in routes(app, "GET"):
        if address in _ENDLESS:
            continue
        answer = browser.get(address)
        assert answer.headers["Content-Security-Policy"] == POLICY
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "same-origin"
        if "text/html" not in answer.headers.get("Content-Type", ""):
            continue
        assert answer.headers["Cache-Control"] == "no-store", address
        page = _Page()
        page.feed(answer.text)
        assert page.refused == [], address
        assert all(each.startswith(("/", "#")) and not each.startswith("//") for each in page.loaded), address
        assert set(page.fields) <= page.labels, address
        assert len(page.ids) == len(set(page.ids)), address


def test_assets_are_served_under_their_hash_alone(tmp_path: Path) -> None:
    """An address with another hash finds nothing, so that no browser keeps a file that is not the right one."""
    console = console_of(tmp_path)
    browser = client(guarded(console))
    asset = console.assets["console.css"]
    answer = browser.get(asset.address)
    assert (answer.status_code, answer.content) == (200, asset.content)
    assert "immutable" in answer.headers["Cache-Control"]
    assert browser.get("/assets/0000000000000000/console.css").status_code == 404
    assert browser.get(f"/assets/{asset.digest.hex()[:16]}/manifest.json").status_code == 404


def test_an_unknown_address_is_a_page(tmp_path: Path) -> None:
    """Not a traceback, and what is asked for is not repeated as HTML."""
    answer = client(guarded(console_of(tmp_path))).get("/<script>alert(1)</script>")
    assert answer.status_code == 404
    assert "<script>alert" not in answer.text
    assert "<main" in answer.text


def test_a_wrong_selection_is_said_beside_its_field(tmp_path: Path) -> None:
    """What was entered stays, and the error names the place and the fix."""
    browser = client(guarded(console_of(tmp_path)))
    for path in ("/failures", "/letters"):
        answer = browser.get(path, params={"where": "attempts >", "origin": "<b>"})
        assert answer.status_code == 400
        assert 'id="fault-where"' in answer.text
        assert 'value="attempts &gt;"' in answer.text
        assert "&lt;b&gt;" in answer.text
        assert "<b>" not in answer.text.partition('id="filters"')[2].partition("</form>")[0]
    answer = browser.get("/failures", params={"since": "soon", "state": "lost"})
    assert 'id="fault-state"' in answer.text
    assert "neither a time" in browser.get("/failures", params={"since": "soon"}).text


def test_without_an_index_pages_say_so(tmp_path: Path) -> None:
    """They neither fail nor wait for it."""
    browser = client(guarded(console_of(tmp_path)))
    for path in ("/", "/failures", "/letters", "/jobs", "/waiting", "/topology", "/audit"):
        assert browser.get(path).status_code == 200, path
    assert "is being built" in browser.get("/failures").text


def test_a_problem_takes_the_place_of_a_look(tmp_path: Path) -> None:
    """A page that is open gets it by an event, also if the problem changes; nothing is being looked at for ever."""
    console = console_of(tmp_path)
    app = guarded(console)
    assert "Looking at the cluster" in client(app).get("/topology").text
    for text in ("grant the right Describe", "grant the right DescribeConfigs"):
        seen = console.broadcast.seen
        console.topology.problem = Problem(0, text)
        console._topology_changed()
        assert console.broadcast.missed(seen) == {"topology": "changed"}
        page = client(app).get("/topology").text
        assert text in page
        assert "redelivery topology acls --role console" in page
        assert "Looking at the cluster" not in page
    console.flow.problem = Problem(0, "no Kafka")
    for path in ("/", "/waiting", "/topology"):
        assert "Looking at the group" not in client(app).get(path).text


def test_without_payloads_no_index_keeps_them(tmp_path: Path) -> None:
    """Also that of a task, and of one that is asked about."""
    console = console_of(tmp_path, options=ConsoleOptions(hide_payloads=True))
    for each in (console, console.letters, console.book):
        assert not each.settings.dead_letters.index.values
    assert not console.tasks._settings.dead_letters.index.values
    assert console_of(tmp_path).settings.dead_letters.index.values


def test_a_letter_is_shown_when_the_index_is_there(tmp_path: Path) -> None:
    """Until then its page says so, and loads itself when the index has changed."""
    answer = client(guarded(console_of(tmp_path))).get("/letters/DLQ.orders-0@1/compare?with=%22%3E%3Cb%3E")
    assert answer.status_code == 503
    assert 'hx-get="/letters/DLQ.orders-0@1/compare?with=%22%3E%3Cb%3E" hx-trigger="sse:letters"' in answer.text


def test_search_finds_any_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The condition that it makes of a text is one, whatever the text is."""
    monkeypatch.setattr(searches, "find", lambda *_, **__: Search((), ()))
    browser = client(guarded(console_of(tmp_path)))
    for text in ("it's 50% off_", "\\", "' or true --", "<script>", "é" * 300):
        found = browser.get("/search", params={"q": text}).headers["Location"]
        assert browser.get(found).status_code == 200, found
