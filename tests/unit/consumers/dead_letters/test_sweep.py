"""What a sweeper leaves to the next one after an error, and what a dry run counts."""

from collections.abc import Iterable, Mapping, Sequence
from threading import Event
from typing import cast

import pytest

from kafka_redelivery.consumers.clock import boottime_s, wall_clock_ms
from kafka_redelivery.consumers.dead_letters.sweep import sweeper_factory
from kafka_redelivery.consumers.dead_letters.sweep_clock import SweepClock
from kafka_redelivery.consumers.dead_letters.sweep_cursor import PauseReason
from kafka_redelivery.consumers.dead_letters.sweeper import Sweeper, SweeperDependencies
from kafka_redelivery.consumers.process.clients import Instance
from kafka_redelivery.consumers.telemetry.metrics import Build, Measurements
from kafka_redelivery.consumers.telemetry.observers import NoOpSweeperObserver, SweeperState
from kafka_redelivery.topology.cluster.sweep_plan import sweep_plan
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.metric_catalogue import SWEEP_RESTING
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.transport.admin.broker_time import BrokerTime
from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.partition_offsets import RecordDeleter
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.errors import PositionDeletedError, ReaderError
from kafka_redelivery.transport.protocols import Message, Partition, ProducerRecord, RebalanceListener, Writer
from tests.unit.consumers.doubles import StoredOffsets
from tests.unit.consumers.records import Fetched

TEXT = """
group: billing
kafka: {bootstrap.servers: "127.0.0.1:1", log_level: 0}
sources: [{topic: orders}]
policyEntry: {deadLetterStrategy: {expiration: 60000}}
"""
SETTINGS = load_settings(TEXT)
LETTERS, BILLS = Partition("DLQ.orders", 0), Partition("DLQ.bills", 0)


def test_sweepers_share_their_clock() -> None:
    """A new sweeper knows the jumps of the clock that the previous one has seen."""
    create = sweeper_factory(SETTINGS, Instance("s1", stable=True), NoOpSweeperObserver())
    assert create is not None
    assert create()._clock is create()._clock


def test_the_state_is_cleared_when_a_sweeper_ends() -> None:
    """Its partitions belong to another sweeper now, or to none."""
    measurements = Measurements(Build("1", "scheduler", "billing", "s1"))
    measurements.sweeper_state(SweeperState({}, {("DLQ.orders", "never"): 3}))
    reader = cast("GroupReader", StoredOffsets())
    clock = SweepClock(wall_clock_ms, boottime_s)
    time = BrokerTime(SETTINGS.kafka, "billing.sweeper", reader)
    sweeper = Sweeper(
        sweep_plan(SETTINGS),
        SweeperDependencies(reader, None, RecordDeleter(SETTINGS.kafka), time, clock, measurements),
    )
    with pytest.raises(ReaderError, match="no dead-letter topic"):
        sweeper.run(Event())
    [family] = [family for family in measurements.collect() if family.name == SWEEP_RESTING.name]
    assert family.samples == []


class _Letters(StoredOffsets):
    """A reader of one partition that is not fetched to its end."""

    def __init__(self, *answers: list[Fetched] | PositionDeletedError) -> None:
        super().__init__(ends={LETTERS: (1, 9)}, counts={LETTERS.topic: 1})
        self.answers = list(answers)

    def subscribe(self, topics: Sequence[str], listener: RebalanceListener) -> None:
        """Assign the partition at once."""
        assert topics == [LETTERS.topic]
        listener.assigned([LETTERS])

    def fetch(self, maximum: int, timeout_s: float) -> list[Message]:
        """Return or raise the next answer."""
        del maximum, timeout_s
        answer = self.answers.pop(0)
        if isinstance(answer, PositionDeletedError):
            raise answer
        return list(answer)

    def reached_end(self, partition: Partition) -> int | None:
        """See :class:`GroupReader`."""
        return self.reached.get(partition)


def _letter(offset: int, expires_ms: int = 1000) -> Fetched:
    headers = [("_AMQ_ORIG_QUEUE", b"billing"), ("_AMQ_ORIG_ADDRESS", b"orders")]
    expiration = [("JMSExpiration", b"%d" % expires_ms)] if expires_ms else []
    return Fetched(LETTERS.topic, LETTERS.number, offset, None, b"value", [*headers, *expiration], 1)


def test_a_dry_run_changes_nothing_and_counts_each_letter_once() -> None:
    """Also one that it reads again, because a scheduler has removed those before it meanwhile."""
    again = PositionDeletedError(LETTERS.topic, LETTERS.number, 0, "deleted")
    reader = _Letters([_letter(1)], again, [_letter(1)], [_letter(2), _letter(3, 0)])
    clock = SweepClock(wall_clock_ms, boottime_s)
    dry = SweeperDependencies(cast("GroupReader", reader), None, None, None, clock, NoOpSweeperObserver())
    moving = sweep_plan(load_settings(TEXT.replace("60000", "60000, expiryAddress: EXP")))
    sweeper, told = Sweeper(moving, dry), list[tuple[int, int]]()
    [cursor] = sweeper.sweep_once(Event(), lambda done, total: told.append((done, total))).values()
    assert (cursor.pause_reason, cursor.next_offset) == (PauseReason.NEVER, 3)
    assert (sweeper.reporter.total_removed[LETTERS], sweeper.reporter.total_moved[LETTERS]) == (2, 2)
    assert told == [(1, 8), (0, 8), (1, 8), (8, 8)]


class _TwoTopics(StoredOffsets):
    """Dead letters of two topics, of which one is empty; what is moved and removed."""

    letters = tuple(_letter(offset) for offset in range(3))
    position = 0

    def __init__(self) -> None:
        super().__init__(ends={LETTERS: (0, 3), BILLS: (0, 0)}, counts={LETTERS.topic: 1, BILLS.topic: 1, "EXP": 1})
        self.moved: list[ProducerRecord] = []
        self.removed: list[Mapping[Partition, int]] = []

    def subscribe(self, topics: Sequence[str], listener: RebalanceListener) -> None:
        """Assign both partitions at once."""
        listener.assigned([LETTERS, BILLS])
        assert {LETTERS.topic, BILLS.topic} <= set(topics)

    def fetch(self, maximum: int, timeout_s: float) -> list[Message]:
        """Return what is behind the position."""
        del maximum, timeout_s
        fetched, self.position = self.letters[self.position :], 3
        return list(fetched)

    def seek(self, partition: Partition, offset: int) -> None:
        """Move the position."""
        if partition == LETTERS:
            self.position = offset

    def reached_end(self, partition: Partition) -> int | None:
        """All is fetched at once."""
        return self.ends[partition][1] if self.position == 3 else None

    def write(self, records: Sequence[ProducerRecord], *_: object, **__: object) -> None:
        """See :class:`Writer`."""
        self.moved += records

    def group_metadata(self) -> object:
        """See :class:`Writer`."""

    def finish(self, _checkpoints: object) -> None:
        """See :class:`Writer`."""

    def close(self) -> None:
        """Nothing is open."""

    def delete_before(self, ends: Mapping[Partition, int]) -> Mapping[Partition, str]:
        """See :class:`RecordDeleter`."""
        self.removed.append(ends)
        return {}


def test_what_was_not_moved_stays_when_another_topic_was_created_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The expired letters that were read before are read again, moved, and only then removed."""
    ids = {LETTERS.topic: "o1", BILLS.topic: "b1"}

    def topic_ids(_calls: object, topics: Iterable[str], cluster: str | None) -> TopicIds:
        return TopicIds(cluster=cluster or "c", ids={topic: ids[topic] for topic in topics})

    monkeypatch.setattr("kafka_redelivery.consumers.dead_letters.sweeper.topic_ids", topic_ids)
    monkeypatch.setattr("kafka_redelivery.consumers.dead_letters.sweeper._ERROR_PAUSE_S", 0)
    text = TEXT.replace("[{topic: orders}]", "[{topic: orders}, {topic: bills}]").replace(
        "60000", "1, expiryAddress: EXP"
    )
    kafka = _TwoTopics()
    reader, writer = cast("GroupReader", kafka), cast("Writer", kafka)
    deleter, calls = cast("RecordDeleter", kafka), cast("AdminCalls", kafka)
    clock = SweepClock(wall_clock_ms, boottime_s)
    clients = SweeperDependencies(reader, writer, deleter, None, clock, NoOpSweeperObserver(), calls)
    sweeper = Sweeper(sweep_plan(load_settings(text)), clients)
    with sweeper._membership(Event()):
        ids[BILLS.topic] = "b2"
        sweeper._turn()
        assert (kafka.moved, kafka.removed) == ([], [])
        sweeper._turn()
    assert len(kafka.moved) == 3
    assert kafka.removed == [{LETTERS: 3}]
