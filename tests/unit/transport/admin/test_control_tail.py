"""What a control topic says that was deleted and created again, to a process that has read the older one."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka_redelivery.consumers.process import pause_watch
from kafka_redelivery.consumers.process.pause_watch import PauseWatch
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.topology.wire.control import ControlRecord, tier_record
from kafka_redelivery.topology.wire.pauses import PauseScope, PauseTarget, ProcessName, pause_record, process_record
from kafka_redelivery.transport.admin import control_topic
from kafka_redelivery.transport.admin.control_topic import ControlTail
from kafka_redelivery.transport.assigned_reader import ReadBatch
from kafka_redelivery.transport.clients.topic_watch import FoundTopic
from kafka_redelivery.transport.protocols import Message, Partition
from tests.unit.consumers.records import NOW, Fetched
from tests.unit.dead_letters.test_listed_and_sent import SETTINGS

ONLY = Partition("billing.control", 0)
ORDERS, PAYMENTS = (PauseTarget(PauseScope.SOURCE, each) for each in ("orders", "payments"))
OLDER, PRESENT = "aaaa11111111", "aaaa22222222"
W1 = ProcessName("worker", "w1")


class _Log:
    """A control topic, and the client that reads it: it goes on where it was, whatever topic that is now."""

    def __init__(self) -> None:
        self.mark = OLDER
        self.records: list[ControlRecord] = []
        self._position = 0

    def metadata(self, *_: object) -> Any:  # noqa: ANN401 - a part of the client's
        return SimpleNamespace(topics={ONLY.topic: SimpleNamespace(error=None)})

    def assign(self, starts: dict[Partition, int]) -> None:
        self._position = max(0, starts[ONLY])

    def bounds(self, *_: object) -> tuple[int, int]:
        return 0, len(self.records)

    def batches(self, starts: dict[Partition, int], *_: object) -> list[ReadBatch]:
        self._position = max(0, starts[ONLY])
        return [self.fetch(0, 0.0)]

    def fetch(self, *_: object) -> ReadBatch:
        start, self._position = self._position, max(self._position, len(self.records))
        found = [Fetched(*ONLY, at, *self.records[at]) for at in range(start, len(self.records))]
        offsets = [each.place for each in found]
        return ReadBatch(cast("list[Message]", found), [ONLY] * len(found), offsets, {ONLY: self._position})

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> _Log:
    """A topic in which orders are paused."""
    made = _Log()
    made.records = [pause_record(ORDERS, None, NOW)]
    monkeypatch.setattr(control_topic, "AssignedReader", lambda *_, **__: made)
    return made


@pytest.mark.parametrize("others", [0, 3], ids=["shorter", "longer"])
def test_a_tail_reads_the_present_topic(log: _Log, others: int) -> None:
    """Whether or not it has the offset that would be read next."""
    tail = ControlTail({}, "billing", ONLY.topic, keep_records=True)
    assert not tail.about(OLDER)
    assert tail.read_to_end().pauses.keys() == {ORDERS}
    log.records = [pause_record(PAYMENTS, None, NOW), *[tier_record("retry", None, NOW)] * others]
    assert not tail.about("")
    assert tail.about(PRESENT)
    assert tail.read_to_end().pauses.keys() == {PAYMENTS}
    assert not tail.about(PRESENT)
    assert tail.poll(0).tiers == ({"retry"} if others else set())


def test_a_process_obeys_the_present_topic(log: _Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so again, also if the pause of the present topic has the offset of the older one."""
    topics = SimpleNamespace(poll=lambda *_: {ONLY.topic: FoundTopic(1, log.mark)})
    monkeypatch.setattr(pause_watch, "TopicWatch", lambda _: topics)
    monkeypatch.setattr(pause_watch, "append_control", lambda _, __, records, ___: log.records.extend(records))
    watch = PauseWatch(SETTINGS, W1, Health())
    watch.read()
    seen = []

    def turn() -> bool:
        """Apply what is known; end after the third turn."""
        seen.append(watch.current)
        watch.applied(watch.current)
        if len(seen) == 3:
            log.mark, log.records = PRESENT, [pause_record(PAYMENTS, None, NOW)]
        return len(seen) > 6

    monkeypatch.setattr(pause_watch, "wall_clock_ms", lambda: NOW)
    watch._follow(cast("Any", SimpleNamespace(is_set=turn)))
    assert seen[0].covers("orders")
    assert watch.current.covers("payments")
    assert not watch.current.covers("orders")
    assert log.records[1:] == [process_record(W1, 1, NOW)]
