"""A slot that waits for a child process looks whether its record is still to be handled."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar
from unittest.mock import Mock

import pytest

from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.consumers.flow.lane import Lane
from kafka_redelivery.consumers.flow.work_item import in_slot
from kafka_redelivery.consumers.handlers import child_process_pool
from kafka_redelivery.consumers.handlers.batch_processor import processor_of
from kafka_redelivery.consumers.handlers.calls import CallResult
from kafka_redelivery.consumers.handlers.child import ChildDiedError
from kafka_redelivery.consumers.handlers.child_process_pool import ChildProcessPool
from kafka_redelivery.topology.config.settings import BatchSection, HandlerSection
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from tests.unit.consumers.records import NOW, item, record, source


class FakeChild:
    """A child in this process. The first one dies while it is idle; the start of each later one takes a step."""

    started: ClassVar[list[FakeChild]]
    steps: ClassVar[list[Callable[[], None]]]

    def __init__(self, *_: object, **__: object) -> None:
        self.positions = [Mock()]
        self.given = 0
        self.started.append(self)

    def wait_until_ready(self, *_: object) -> None:
        """Take the next step."""
        if self.steps:
            self.steps.pop(0)()

    def give(self, *_: object) -> None:
        """Note a call, or die."""
        if self is self.started[0]:
            raise ChildDiedError((), Failure(FailureKind.RAISED, "Died", ""))
        self.given += 1

    def has_answer(self, *_: object) -> bool:
        """The handler has returned."""
        return True

    def answer(self) -> CallResult:
        """It has emitted nothing."""
        return CallResult(None, {})

    def kill(self) -> None: ...
    def leave(self) -> None: ...
    def join(self, _timeout_s: float) -> None: ...


@pytest.fixture(autouse=True)
def child(monkeypatch: pytest.MonkeyPatch) -> type[FakeChild]:
    """The children of the next pool."""
    monkeypatch.setattr(child_process_pool, "Child", FakeChild)
    FakeChild.started, FakeChild.steps = [], []
    return FakeChild


def give_away(lane: Lane) -> None:
    """The partition is revoked."""
    lane.closed = True


def hold(lane: Lane) -> None:
    """An operator pauses the source."""
    lane.held = True


def leave(_: Lane) -> None:
    """Nothing happens."""


def fail() -> None:
    """The child cannot load the handler."""
    raise HandlerLoadError("m:f", "cannot be imported", "repair it")


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(("meanwhile", "calls"), [(give_away, 0), (hold, 0), (leave, 1)])
def test_a_record_that_was_given_away_while_a_child_started(
    meanwhile: Callable[[Lane], None], calls: int, *, batch: bool
) -> None:
    """Its next owner may handle it already. The child is there for the next record."""
    pool = ChildProcessPool(HandlerSection(callable="m:f", batch=BatchSection() if batch else None))
    given = item(source(), [record(1)])
    given.batch = batch
    FakeChild.steps = [lambda: meanwhile(given.lane)]
    processor_of(pool.handler(), {}, lambda: NOW, None).run(given)
    second = FakeChild.started[1]
    assert (second.given, given.position, given.held, len(pool._idle)) == (calls, calls, "", 1)
    assert in_slot.get() is None


def test_a_slot_that_waits_for_a_child_does_not_delay_a_rebalance() -> None:
    """Another slot has the other child, and the next try to start one is seconds away."""
    pool = ChildProcessPool(HandlerSection(callable="m:f", slots=2))
    pool._idle.remove(FakeChild.started[1])  # type: ignore[arg-type]
    given = item(source(), [record(1)])

    def fail_and_give_away() -> None:
        give_away(given.lane)
        fail()

    FakeChild.steps += [fail_and_give_away, lambda: None]
    processor_of(pool.handler(), {}, lambda: NOW, None).run(given)
    assert (given.position, given.held, len(FakeChild.steps)) == (0, "", 1)
