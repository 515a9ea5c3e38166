"""Who acts on waiting records is asked first, with what is meant; it is in the audit trail, and can be cancelled."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from kafka_redelivery.cli.console.access import LocalUser, Role, User, Visitor
from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.options import ConsoleOptions
from kafka_redelivery.cli.console.pages import waiting as pages
from kafka_redelivery.consumers.errors import ConsumersError
from kafka_redelivery.consumers.operations import acting
from kafka_redelivery.consumers.operations.acting import Found, RequestState, Waiting, WaitingSelection
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import FailureCause
from kafka_redelivery.topology.wire.waiting import RequestKey, WaitingAction, WaitingDone, WaitingRequest
from kafka_redelivery.transport.protocols import Partition
from tests.unit.cli.console.consoles import client, console_of, guarded
from tests.unit.cli.console.test_pauses import flow_of
from tests.unit.consumers.records import NOW

TIER = "billing.retry.5m"
RECORDS = tuple(
    Waiting(
        Partition(TIER, 0),
        offset,
        Lineage("orders", 0, offset, NOW),
        b"k%d" % offset,
        NOW + 60_000,
        FailureCause("", "KeyError", "<iban>"),
    )
    for offset in range(3)
)
OPEN = WaitingRequest(
    key=RequestKey("5f0c21aa", TIER, 0),
    action=WaitingAction.DELIVER_NOW,
    offsets=(0, 1),
    until_ms=NOW + 60_000,
    by="bob@desk",
    note="the bank is back",
    at_ms=NOW,
)


class Operations:
    """What the pages have asked the operations for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.notes: list[tuple[str, str, str]] = []
        self.requests: Sequence[WaitingRequest] = ()
        self.done = WaitingDone(1, ended=True, at_ms=NOW)
        self.cancelled: list[str] = []
        self.reads: list[bool] = []
        for name in ("look", "act", "withdraw"):
            monkeypatch.setattr(acting, name, getattr(self, name))
        monkeypatch.setattr(acting, "refuse_older", lambda _: None)
        monkeypatch.setattr(acting, "look_at_requests", lambda _: (RequestState(OPEN),))
        monkeypatch.setattr(pages, "write_note", self.note)
        monkeypatch.setattr(pages, "wall_clock_ms", lambda: NOW)
        monkeypatch.setattr(pages, "_WITHIN_S", 0)

    def look(self, _: object, selection: WaitingSelection, *__: object, records: bool = True) -> Found:
        """Find those of the three records that are meant."""
        self.reads.append(records)
        found = tuple(each for each in RECORDS if selection.matches(each, []))
        return Found(selection, found if records else (), {Partition(TIER, 0): (0, 3)}, {})

    def note(self, _: object, _by: str, what: str, about: str, note: str = "") -> None:
        """Keep a note of the audit trail."""
        self.notes.append((what, about, note))

    def act(
        self, _: object, requests: Sequence[WaitingRequest], __: float, report: Callable[[int, int], None]
    ) -> list[RequestState]:
        """Keep the requests; all of them have the same end."""
        self.requests = requests
        report(1, 1)
        return [RequestState(each, self.done) for each in requests]

    def withdraw(self, _: object, states: Sequence[RequestState]) -> None:
        """Keep what was cancelled."""
        self.cancelled += [each.request.key.id for each in states]


@pytest.fixture
def operations(monkeypatch: pytest.MonkeyPatch) -> Operations:
    """The operations, without a Kafka."""
    return Operations(monkeypatch)


@pytest.fixture
def console(tmp_path: Path) -> Console:
    """A console that has looked at the group, in which a request is under way."""
    found, flow = console_of(tmp_path), flow_of()
    found.flow.value = replace(flow, status=replace(flow.status, requests=(RequestState(OPEN),)))
    return found


def _post(console: Console, address: str, form: Mapping[str, str]) -> tuple[int, str]:
    visitor = console.authentication.visitor(None)  # type: ignore[arg-type] # the one user of this machine
    assert isinstance(visitor, Visitor)
    answer = client(guarded(console)).post(address, data={"csrf": visitor.csrf, **form})
    return answer.status_code, answer.headers.get("Location") or answer.text


def test_the_page_shows_what_is_under_way(console: Console) -> None:
    """With a way to cancel it, to each tier's records, and to act on the tier."""
    page = client(guarded(console)).get("/waiting").text
    assert "deliver-now</b> by bob@desk: the bank is back" in page
    assert "2 wait for the scheduler that owns them" in page
    assert 'href="/waiting/cancel/5f0c21aa"' in page
    assert f'href="/waiting/act?tier={TIER}"' in page
    assert f'href="/waiting/records?tier={TIER}"' in page


def test_the_records_of_a_selection(console: Console, operations: Operations) -> None:
    """Each can be selected, and all can be acted on; without a selection there is no such button."""
    browser = client(guarded(console))
    page = browser.get(f"/waiting/records?tier={TIER}&key=k1&key=k2").text
    assert "<b>2</b> records" in page
    assert 'name="id" value="orders-0@1"' in page
    assert "&lt;iban&gt;" in page
    assert f'href="/waiting/act?tier={TIER}&amp;key=k1&amp;key=k2"' in page
    assert "Act on all of them" not in browser.get("/waiting/records").text
    assert operations.reads == [True, True]


def test_a_question_comes_first_and_nothing_is_chosen_beforehand(console: Console, operations: Operations) -> None:
    """It names the records. Those of a whole tier are not read for it."""
    browser = client(guarded(console))
    page = browser.get("/waiting/act?id=orders-0@1").text
    assert "1 record (orders-0@1)" in page
    assert " checked" not in page
    assert f"All records of {TIER} (at most 3)" in browser.get(f"/waiting/act?tier={TIER}").text
    assert operations.reads == [True, False]
    assert "None of them waits in a tier" in browser.get("/waiting/act?id=orders-0@9").text
    assert browser.get("/waiting/act").status_code == HTTPStatus.BAD_REQUEST
    assert not operations.notes


@pytest.mark.parametrize(
    ("form", "action", "due_ms", "result"),
    [
        ({"action": "deliver-now"}, WaitingAction.DELIVER_NOW, None, "1 record is delivered now"),
        ({"action": "delay", "due": "2h"}, WaitingAction.DELAY, NOW + 7_200_000, "1 record is delayed"),
        ({"action": "dead-letter"}, WaitingAction.DEAD_LETTER, None, "1 record is dead-lettered"),
    ],
)
def test_each_action(
    console: Console,
    operations: Operations,
    form: Mapping[str, str],
    action: WaitingAction,
    due_ms: int | None,
    result: str,
) -> None:
    """It is noted before it is done, and the page says how it ended."""
    status, place = _post(console, "/waiting/act?id=orders-0@1", {**form, "note": "a customer waits", "shown": "1"})
    assert status == HTTPStatus.SEE_OTHER
    assert operations.notes == [(f"{action} waiting", "1 record (orders-0@1)", "a customer waits")]
    [request] = operations.requests
    assert (request.action, request.offsets, request.due_ms) == (action, (1,), due_ms)
    assert (request.by.partition(" ")[0], request.note) == ("ann", "a customer waits")
    assert result in client(guarded(console)).get(place).text


def test_no_more_records_are_acted_on_than_were_shown(console: Console, operations: Operations) -> None:
    """Others may have begun to fit while the page asked."""
    browser = client(guarded(console))
    assert '<input type="hidden" name="shown" value="3">' in browser.get("/waiting/act?exception=KeyError").text
    for shown, text in (("2", "3 records fit now, and 2 when you were asked"), ("", "and 0 when you were asked")):
        form = {"action": "dead-letter", "shown": shown}
        _, place = _post(console, "/waiting/act?exception=KeyError", form)
        assert text in browser.get(place).text
    assert not operations.notes
    assert not operations.requests


def test_what_is_not_done_is_said(console: Console, operations: Operations) -> None:
    """The schedulers go on with it, and the page Waiting shows it."""
    operations.done = WaitingDone(1, {"their headers are damaged": 1}, left=1, why="for space", at_ms=NOW)
    _, place = _post(console, f"/waiting/act?tier={TIER}", {"action": "deliver-now"})
    page = client(guarded(console)).get(place).text
    assert "1 record is delivered now<br>deliver-now" in page
    assert "1 refused: their headers are damaged, at most 1 wait for space" in page


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ({}, "choose what is done"),
        ({"action": "purge"}, "choose what is done"),
        ({"action": "delay"}, "say when"),
        ({"action": "delay", "due": "yesterday"}, "yesterday"),
    ],
)
def test_a_form_that_says_too_little_changes_nothing(
    console: Console, operations: Operations, form: Mapping[str, str], problem: str
) -> None:
    """It is shown again with what is wrong."""
    status, page = _post(console, "/waiting/act?id=orders-0@1", form)
    assert status == HTTPStatus.BAD_REQUEST
    assert problem in page
    assert not operations.notes
    assert not operations.requests


def test_a_group_with_older_members_is_refused(
    console: Console, operations: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is written."""

    def refuse(_: object) -> None:
        raise ConsumersError("group billing has feature level 3")

    monkeypatch.setattr(acting, "refuse_older", refuse)
    status, page = _post(console, "/waiting/act?id=orders-0@1", {"action": "deliver-now"})
    assert status == HTTPStatus.BAD_REQUEST
    assert "feature level 3" in page
    assert not operations.notes


def test_records_that_have_left_are_not_noted(console: Console, operations: Operations) -> None:
    """They were delivered while the page asked."""
    _, place = _post(console, "/waiting/act?id=orders-0@9", {"action": "deliver-now"})
    assert "none of these records waits in a tier any more" in client(guarded(console)).get(place).text
    assert not operations.notes


def test_cancelling_asks(console: Console, operations: Operations) -> None:
    """With what is done and what is not."""
    page = client(guarded(console)).get("/waiting/cancel/5f0c21aa").text
    assert "0 done, 2 wait" in page
    assert not operations.cancelled
    assert _post(console, "/waiting/cancel/5f0c21aa", {}) == (HTTPStatus.SEE_OTHER, "/waiting")
    assert operations.notes == [("cancel waiting", "5f0c21aa", "")]
    assert operations.cancelled == ["5f0c21aa"]


def test_what_has_ended_is_not_cancelled(console: Console, operations: Operations) -> None:
    """The page says so, and nothing is noted."""
    status, page = _post(console, "/waiting/cancel/unknown", {})
    assert (status, "there is no request unknown that has not ended" in page) == (HTTPStatus.CONFLICT, True)
    assert not operations.notes
    assert not operations.cancelled


def test_who_may_not(tmp_path: Path, operations: Operations) -> None:
    """A viewer sees the records and no button; where payloads are hidden, no key."""

    def browser(role: Role, options: ConsoleOptions | None = None) -> Any:  # noqa: ANN401 - a client of Starlette
        console = console_of(tmp_path, LocalUser(User("vera", role)), options)
        console.flow.value = flow_of()
        return client(guarded(console))

    viewer = browser(Role.VIEWER)
    assert viewer.get(f"/waiting/act?tier={TIER}").status_code == HTTPStatus.FORBIDDEN
    assert viewer.get("/waiting/cancel/5f0c21aa").status_code == HTTPStatus.FORBIDDEN
    assert "/waiting/act" not in viewer.get("/waiting").text
    page = viewer.get(f"/waiting/records?tier={TIER}").text
    assert "orders-0@1" in page
    assert "/waiting/act" not in page
    hiding = browser(Role.OPERATOR, ConsoleOptions(hide_payloads=True))
    assert ">k1</span>" in page
    assert ">k1</span>" not in hiding.get(f"/waiting/records?tier={TIER}").text
    assert hiding.get("/waiting/records?key=k1").status_code == HTTPStatus.FORBIDDEN
    assert operations.reads == [True, True]


@pytest.mark.parametrize("path", ["/waiting/records?tier=billing.retry.5m", "/waiting/act?tier=billing.retry.5m"])
def test_a_link_of_another_site_is_opened_by_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Nothing is read before, however often a site leads here."""
    looks: list[object] = []
    monkeypatch.setattr(acting, "look", lambda *given, **_: looks.append(given))
    browser = client(guarded(console_of(tmp_path)))
    led = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"}
    for page in (browser.get(path, headers=led), browser.get(f"{path}&retried=1")):
        assert page.status_code == HTTPStatus.OK
        assert f'href="{path}"' in page.text
    assert not looks
