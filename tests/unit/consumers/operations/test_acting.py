"""A command that waits for the schedulers sees how far they are, and ends when there is nothing to wait for."""

from collections.abc import Callable

import pytest

from kafka_redelivery.consumers.operations import acting
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.wire.control import ControlRecord
from kafka_redelivery.topology.wire.pauses import Pauses
from kafka_redelivery.topology.wire.waiting import (
    RequestKey,
    WaitingAction,
    WaitingDone,
    WaitingRequest,
    done_record,
    withdrawn_requests,
)
from tests.unit.consumers.records import NOW

SETTINGS = load_settings("{group: billing, kafka: {bootstrap.servers: 'nowhere:1'}, sources: [{topic: orders}]}")
KEY = RequestKey("a1", "billing.retry.5m", 0)
REQUEST = WaitingRequest(
    key=KEY, action=WaitingAction.DELIVER_NOW, offsets=(3, 5), until_ms=NOW + 1000, by="ann", at_ms=NOW
)


class Control:
    """A control topic to which others write, too: a record for each look."""

    def __init__(self, *others: ControlRecord) -> None:
        self.records: list[ControlRecord] = []
        self.others = list(others)

    def exists(self) -> bool:
        """The topic is there."""
        return True

    def read_to_end(self) -> Pauses:
        """What is in it."""
        found = Pauses()
        for place, (key, value) in enumerate(self.records):
            found = found.with_record(key, value, place)
        return found

    def poll(self, _: float) -> Pauses:
        """The same with the next record."""
        found = self.read_to_end()
        self.records += [self.others.pop(0)] if self.others else []
        return found

    def close(self) -> None:
        """Do nothing."""

    def append(self, _: object, __: str, records: list[ControlRecord]) -> None:
        """Write to it."""
        self.records += records


@pytest.fixture
def act(monkeypatch: pytest.MonkeyPatch) -> Callable[[Control], list[acting.RequestState]]:
    """Act on records while others write to a control topic."""

    def run(control: Control) -> list[acting.RequestState]:
        monkeypatch.setattr(acting, "control_tail", lambda _: control)
        monkeypatch.setattr(acting, "append_control", control.append)
        return acting.act(SETTINGS, [REQUEST], 0.05 if not control.others else 60, lambda *_: None)

    return run


def test_a_request_that_has_ended_is_removed(act: Callable[[Control], list[acting.RequestState]]) -> None:
    """One record is done, and the other had left before."""
    control = Control(done_record(KEY, WaitingDone(1, ended=True), NOW))
    [state] = act(control)
    assert (state.done.done, state.gone, state.whole) == (1, 1, True)
    assert control.read_to_end().requests == {}


def test_a_request_that_is_cancelled_is_not_waited_for(act: Callable[[Control], list[acting.RequestState]]) -> None:
    """What was done before is known."""
    [state] = act(Control(done_record(KEY, WaitingDone(1, left=1), NOW), *withdrawn_requests([KEY])))
    assert str(state) == "deliver-now a1 by ann, billing.retry.5m-0: 1 done, the rest is cancelled"
    assert not state.whole


def test_a_request_that_no_scheduler_takes_stays(act: Callable[[Control], list[acting.RequestState]]) -> None:
    """The command ends without it."""
    control = Control()
    [state] = act(control)
    assert str(state).endswith("0 done, 2 wait for the scheduler that owns them")
    assert list(control.read_to_end().requests) == [KEY]
