"""Whatever a letter, a topic or an address contains is shown as text: no script runs, nothing is loaded."""

import json
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Browser, expect

from kafka_redelivery.topology.policy.decision import DeadLetter, Failure, FailureKind, Reason
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import dead_letter_headers
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.console.bed import now_ms
from tests.console.browsing import visiting
from tests.console.design import settle
from tests.console.serving import Served, serving
from tests.scenarios.cluster import Cluster, Sent
from tests.scenarios.commands import in_process
from tests.scenarios.running import Group

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

HOSTILE: Final = (
    "<script>window.pwned=1</script>",
    '"><img src=x onerror=window.pwned=1>',
    "'-(window.pwned=1)-'",
    "</textarea></title></style><svg onload=window.pwned=1>",
    '<div hx-get="/logout" hx-trigger="load" hx-on:htmx:load="window.pwned=1">x</div>',
    '<form action="https://example.org"><button formaction="javascript:window.pwned=1">',
    "{{ 7 * 7 }}{% raw %}${7*7}#{7*7}",
    "javascript:window.pwned=1//",
    "]]><!--<a href=javascript:window.pwned=1>--!>",
    "\u202eevil\u2066\x1b]0;x\x07\r\nSet-Cookie: a=b\r\n\r\ndata: x\r\nevent: flow",
)

NUMBERS: Final = [
    pytest.param(number, marks=() if number in {4, 9} else pytest.mark.long) for number in range(len(HOSTILE))
]
"""The payloads. Those that are not long leave an attribute and a line, and name what htmx obeys."""

_TOPIC: Final = "a.script-window.pwned_1-onerror.svg"
"""A topic's name has letters, digits, dots, dashes and underscores alone."""


@pytest.fixture(scope="module")
def group(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """A group with a letter for each payload, which is everywhere in it."""
    found = Group(Cluster(kafka.bootstrap_servers), _TOPIC, tmp_path_factory.mktemp("hostile"))
    found.prepare()
    found.cluster.produce(found.dead_letters, [_letter(found, n, text) for n, text in enumerate(HOSTILE)])
    done = in_process("dlq", "discard", "--exception", f"*{HOSTILE[0][8:14]}*", "--yes", file=found.file)
    assert done.code == 0, done
    try:
        yield found
    finally:
        found.close()


@pytest.fixture(scope="module")
def console(browser: Browser, group: Group) -> Iterator[Served]:
    """The console of the group."""
    with serving(group) as found:
        with visiting(browser, found.address) as visit:
            visit.await_data()
        yield found


def _letter(group: Group, n: int, text: str) -> Sent:
    failure = Failure(FailureKind.RAISED, f"Error{text}", f"it says {text}")
    lineage = Lineage(group.source, 0, n, now_ms(), deliveries=1)
    decision = DeadLetter(Reason.REDELIVERIES_EXCEEDED, failure, expiration_ms=0)
    headers = dead_letter_headers(lineage, group.name, [(text, text.encode())], decision, now_ms())
    value = json.dumps({"n": n, text: text, "list": [text, {text: [text]}]})
    return Sent(value.encode(), text.encode(), headers, 0)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_letter_is_shown_as_text(browser: Browser, console: Served, group: Group, number: int) -> None:
    """Each view of a letter whose key, value, headers and failure are a payload."""
    text, letter = HOSTILE[number], f"{group.dead_letters}-0@{number}"
    with visiting(browser, console.address) as visit:
        page = visit.open(f"/letters/{letter}")
        settle(page)
        expect(page.locator("#story li")).not_to_have_count(0)
        shown = page.locator("main").inner_text()
        for part in text.split("\r\n")[-1:] if "\r" in text else [text]:
            assert " ".join(part.split()) in " ".join(shown.split())
        assert page.evaluate("window.pwned") is None
        page.goto(f"{console.address}/letters/{letter}/edit?again=1")
        settle(page)
        value = json.loads(page.get_by_label("Value").input_value())
        assert value[text] == value["list"][0] == text
        assert page.evaluate("window.pwned") is None
        page.goto(f"{console.address}/letters/{letter}/compare?with={group.dead_letters}-0@{_next(number)}")
        settle(page)
        expect(page.locator("table.diff tbody tr")).not_to_have_count(0)
        assert page.evaluate("window.pwned") is None


def _next(number: int) -> int:
    return (number + 1) % len(HOSTILE)


def test_lists_show_them_as_text(browser: Browser, console: Served) -> None:
    """Each list that has all of them, and what is live in it."""
    with visiting(browser, console.address) as visit:
        page = visit.page()
        for path in ("/failures", "/letters", "/jobs", "/audit", "/topology", "/waiting", "/", "/redrive", "/export"):
            page.goto(console.address + path)
            settle(page)
            expect(page.locator("main")).not_to_be_empty()
            assert page.evaluate("window.pwned") is None, path
            assert page.evaluate("document.querySelectorAll('main script, main img, main svg[onload]').length") == 0


@pytest.mark.parametrize("number", NUMBERS)
def test_addresses_are_shown_as_text(browser: Browser, console: Served, number: int) -> None:
    """Links with a payload in each filter, in a search, and in ids that do not exist."""
    text = HOSTILE[number]
    with visiting(browser, console.address) as visit:
        visit.expected += ["400", "404", "409", "500"]
        page = visit.page()
        for path in (
            f"/letters?{urlencode(dict.fromkeys(('origin', 'exception', 'reason', 'since', 'where'), text))}",
            f"/failures?{urlencode(dict.fromkeys(('fingerprint', 'key', 'header', 'id', 'until', 'state'), text))}",
            f"/search?{urlencode({'q': text})}",
            f"/audit?{urlencode({'by': text, 'what': text})}",
            f"/redrive?{urlencode({'to': text, 'rate': text, 'max_redrives': text, 'exception': text})}",
            f"/letters/{quote(text, safe='')}",
            f"/jobs/{quote(text, safe='')}",
        ):
            answer = page.goto(console.address + path)
            assert answer is not None
            assert answer.status < 500, (path, answer.status)
            assert "set-cookie" not in answer.headers
            settle(page)
            assert page.evaluate("window.pwned") is None, path


def test_bytes_are_never_a_page(browser: Browser, console: Served, group: Group) -> None:
    """The bytes of a value are saved as a file, whatever they look like."""
    with visiting(browser, console.address) as visit:
        answer = visit.context.request.get(f"{console.address}/letters/{group.dead_letters}-0@0/raw")
        assert answer.ok
        assert answer.headers["content-disposition"].startswith("attachment")
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert b"<script>" in answer.body()
