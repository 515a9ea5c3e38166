"""A pause is asked for with what then waits, has an end unless one says otherwise, and is seen on every page."""

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from kafka_redelivery.cli.console.access import LocalUser, Role, User, Visitor
from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.pages import pauses
from kafka_redelivery.consumers.operations import pausing
from kafka_redelivery.consumers.operations.flow import Flow, Movement
from kafka_redelivery.consumers.operations.pausing import AppliedPauses
from kafka_redelivery.consumers.operations.status import GroupStatus, TopicBacklog
from kafka_redelivery.dead_letters import audit
from kafka_redelivery.topology.wire.pauses import Pause, PauseScope, PauseTarget
from tests.unit.cli.console.consoles import client, console_of, guarded
from tests.unit.consumers.records import NOW

ORDERS = PauseTarget(PauseScope.SOURCE, "orders")
BACKLOGS = (
    TopicBacklog("orders", "source", 120, exact=True),
    TopicBacklog("billing.ready.orders", "ready", 3, exact=True),
    TopicBacklog("billing.retry.5m", "tier", 40, exact=True),
)


def flow_of(*paused: Pause) -> Flow:
    """Return a look at a group with records in each kind of topic."""
    seen = AppliedPauses(paused, len(paused), {}, 0)
    status = GroupStatus("billing", NOW, seen, (), BACKLOGS, {}, ())
    movements = {each.topic: Movement(1.0, 2.0, stuck=False) for each in BACKLOGS}
    return Flow(status, movements, frozenset(each.target.topic for each in paused), all_paused=False)


@pytest.fixture
def console(tmp_path: Path) -> Console:
    """A console that has looked at the group."""
    found = console_of(tmp_path)
    found.flow.value = flow_of()
    return found


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What was written: notes of the audit trail, and pauses."""
    found: list[tuple[Any, ...]] = []

    def note(_settings: object, _by: str, what: str, about: str, **more: str) -> None:
        found.append((what, about, more["note"]))

    def pause(_settings: object, targets: object, until_ms: int | None, _wait_s: float, **more: str) -> None:
        found.append((targets, until_ms, more["by"].partition(" ")[0], more["note"]))

    def named(_settings: object, sources: list[str], *_: object) -> list[PauseTarget]:
        return [PauseTarget(PauseScope.SOURCE, each) for each in sources] or [PauseTarget(PauseScope.GROUP)]

    monkeypatch.setattr(audit, "write_note", note)
    monkeypatch.setattr(pausing, "pause", pause)
    monkeypatch.setattr(pausing, "targets_of", named)
    monkeypatch.setattr(pauses, "TopicMetadataCache", lambda _: None)
    monkeypatch.setattr(pauses, "_WITHIN_S", 0)
    monkeypatch.setattr(pauses, "wall_clock_ms", lambda: NOW)
    return found


def _post(console: Console, form: Mapping[str, str]) -> tuple[int, str]:
    visitor = console.authentication.visitor(None)  # type: ignore[arg-type] # the one user of this machine
    assert isinstance(visitor, Visitor)
    answer = client(guarded(console)).post("/pauses", data={"csrf": visitor.csrf, **form})
    return answer.status_code, answer.text


def test_what_would_stand_still_has_its_numbers(console: Console) -> None:
    """A source with its ready topic; a tier; and the group, which is not chosen beforehand."""
    found = pauses.stops(console.settings, console.flow.value)
    assert [(each.target, each.waits, each.rate) for each in found] == [
        ("source:orders", 123, 4.0),
        ("tier:billing.retry.5m", 40, 2.0),
        ("group", 163, 6.0),
    ]
    page = client(guarded(console)).get("/pause").text
    assert "<b>123</b> wait" in page
    assert 'type="radio"' in page
    assert " checked" not in page
    assert 'value="source:orders" required checked' in client(guarded(console)).get("/pause?target=source:orders").text


def test_a_pause_has_an_end_and_a_reason(console: Console, done: list[tuple[Any, ...]]) -> None:
    """Both are in the record of the pause, and the reason is in the audit trail."""
    form = {"target": "source:orders", "for": "10m", "note": "the bank is away"}
    assert _post(console, form)[0] == HTTPStatus.SEE_OTHER
    [(what, about, note), written] = done
    assert (what, note) == ("pause", "the bank is away")
    assert about.startswith("source orders until ")
    assert written == ([ORDERS], NOW + 600_000, "ann", "the bank is away")


def test_a_pause_without_an_end_is_chosen(console: Console, done: list[tuple[Any, ...]]) -> None:
    """It is never what a form says that says nothing."""
    assert _post(console, {"target": "group", "for": "resumed"})[0] == HTTPStatus.SEE_OTHER
    assert done[1][1] is None


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ({"for": "10m"}, "choose what is paused"),
        ({"target": "everything", "for": "10m"}, "choose what is paused"),
        ({"target": "source:orders"}, "choose how long"),
        ({"target": "source:orders", "until": "yesterday"}, "yesterday"),
    ],
)
def test_a_form_that_says_too_little_pauses_nothing(
    console: Console, done: list[tuple[Any, ...]], form: Mapping[str, str], problem: str
) -> None:
    """It is shown again with what is wrong."""
    status, page = _post(console, form)
    assert status == HTTPStatus.BAD_REQUEST
    assert problem in page
    assert not done


def test_every_page_says_what_is_paused(console: Console) -> None:
    """By whom, until when, and why."""
    console.flow.value = flow_of(Pause(ORDERS, NOW, NOW + 60_000, "ann (console, root@host)", "the <b>bank</b>"))
    browser = client(guarded(console))
    for path in ("/", "/failures", "/letters", "/jobs", "/waiting", "/audit", "/pause", "/no-such-page"):
        page = browser.get(path).text
        assert "source orders until 2026-05-28 20:27:40 UTC, by ann (console, root@host): the &lt;b&gt;bank" in page, (
            path
        )
    assert "no faults" not in browser.get("/").text


def test_a_viewer_is_told_and_cannot_pause(tmp_path: Path) -> None:
    """The page that asks is not shown either."""
    console = console_of(tmp_path, LocalUser(User("vera", Role.VIEWER)))
    console.flow.value = flow_of()
    browser = client(guarded(console))
    assert browser.get("/pause").status_code == HTTPStatus.FORBIDDEN
    assert "/pause" not in browser.get("/").text
