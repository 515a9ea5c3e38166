"""What a sweeper leaves to the next one after an error, and what a dry run counts."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from threading import Event
from typing import cast
from unittest.mock import Mock

import pytest

from kafka_redelivery.consumers.clock import boottime_s, wall_clock_ms
from kafka_redelivery.consumers.dead_letters.sweep import sweeper_factory
from kafka_redelivery.consumers.dead_letters.sweep_clock import SweepClock
from kafka_redelivery.consumers.dead_letters.sweep_cursor import PauseReason
from kafka_redelivery.consumers.dead_letters.sweeper import ExpiryWrite, ExpiryWriter, Sweeper, SweeperDependencies
from kafka_redelivery.consumers.process.clients import Instance
from kafka_redelivery.consumers.telemetry.metrics import Build, Measurements
from kafka_redelivery.consumers.telemetry.observers import NoOpSweeperObserver, SweeperState
from kafka_redelivery.topology.cluster.sweep_plan import sweep_plan
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.metric_catalogue import SWEEP_RESTING
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.admin.broker_time import BrokerTime
from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.partition_offsets import RecordDeleter
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.errors import (
    PartitionUnfetchableError,
    PositionDeletedError,
    ReaderError,
    RefusalCause,
    RefusedRecord,
    Unfetchable,
    WriteAbortedError,
    WriteRefusedError,
)
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


def _letter(offset: int, expires_ms: int = 1000, partition: Partition = LETTERS) -> Fetched:
    headers = [("_AMQ_ORIG_QUEUE", b"billing"), ("_AMQ_ORIG_ADDRESS", b"orders")]
    expiration = [("JMSExpiration", b"%d" % expires_ms)] if expires_ms else []
    return Fetched(*partition, offset, None, b"%d" % offset, [*headers, *expiration], 1)


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

    def __init__(self) -> None:
        super().__init__(ends={LETTERS: (0, 3), BILLS: (0, 0)}, counts={LETTERS.topic: 1, BILLS.topic: 1, "EXP": 1})
        self.positions = {BILLS: 0, LETTERS: 0}
        self.moved: list[ProducerRecord] = []
        self.removed: list[Mapping[Partition, int]] = []
        self.unfetchable_now: list[Partition] = []
        """The partitions of which the next fetches return an error."""

        self.refused: set[bytes] = set()
        """The values of the letters that the expiry topic refuses."""

    def add_bills(self, count: int) -> None:
        """Append expired letters to the topic that is empty."""
        first, end = self.ends[BILLS]
        self.ends[BILLS] = (first, end + count)

    def subscribe(self, topics: Sequence[str], listener: RebalanceListener) -> None:
        """Assign both partitions at once."""
        starts = listener.assigned([BILLS, LETTERS])
        self.paused = {BILLS, LETTERS} - starts.keys()
        assert {LETTERS.topic, BILLS.topic} <= set(topics)

    def fetch(self, maximum: int, timeout_s: float) -> list[Message]:
        """Return what is behind the positions."""
        del maximum, timeout_s
        fetched: list[Message] = []
        for partition in self.positions.keys() - self.paused - self.leaderless:
            end = self.ends[partition][1]
            fetched += [_letter(offset, partition=partition) for offset in range(self.positions[partition], end)]
            self.positions[partition] = end
        if self.unfetchable_now:
            raise PartitionUnfetchableError(*self.unfetchable_now.pop(), 0, "bad checksum", Unfetchable.DAMAGED)
        return fetched

    def seek(self, partition: Partition, offset: int) -> None:
        """Move the position."""
        self.positions[partition] = offset

    def reached_end(self, partition: Partition) -> int | None:
        """All is fetched at once."""
        end = self.ends[partition][1]
        return end if self.positions[partition] == end else None

    def write(self, records: Sequence[ProducerRecord], *_: object, **__: object) -> None:
        """See :class:`Writer`: without transactions, what is not refused is written."""
        refused = [index for index, record in enumerate(records) if record.value in self.refused]
        self.moved += [record for index, record in enumerate(records) if index not in refused]
        if refused:
            causes = [RefusedRecord(index, "too large", RefusalCause.TOO_LARGE) for index in refused]
            raise WriteRefusedError(causes, others_written=True)

    def group_metadata(self) -> object:
        """See :class:`Writer`."""

    def finish(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """See :class:`Writer`."""
        self.commits |= checkpoints

    def close(self) -> None:
        """Nothing is open."""

    def delete_before(self, ends: Mapping[Partition, int]) -> Mapping[Partition, str]:
        """See :class:`RecordDeleter`."""
        self.removed.append(ends)
        for partition, offset in ends.items():
            self.ends[partition] = (offset, self.ends[partition][1])
        return {}

    def sweeper(self, expiration: str = "1, expiryAddress: EXP", time: BrokerTime | None = None) -> Sweeper:
        """A sweeper of both topics with this as all its clients."""
        text = TEXT.replace("[{topic: orders}]", "[{topic: orders}, {topic: bills}]").replace("60000", expiration)
        clients = SweeperDependencies(
            cast("GroupReader", self),
            cast("Writer", self),
            cast("RecordDeleter", self),
            time,
            SweepClock(wall_clock_ms, boottime_s),
            NoOpSweeperObserver(),
            cast("AdminCalls", self),
        )
        return Sweeper(sweep_plan(load_settings(text)), clients)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_redelivery.consumers.dead_letters.sweeper._ERROR_PAUSE_S", 0)


@pytest.fixture
def ids(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The ids of the topics."""
    ids = {LETTERS.topic: "o1", BILLS.topic: "b1"}

    def topic_ids(_calls: object, topics: Iterable[str], cluster: str | None) -> TopicIds:
        return TopicIds(cluster=cluster or "c", ids={topic: ids[topic] for topic in topics})

    monkeypatch.setattr("kafka_redelivery.consumers.dead_letters.sweeper.topic_ids", topic_ids)
    return ids


def _resume(sweeper: Sweeper, partition: Partition) -> None:
    """Let the pause of a partition end."""
    assert sweeper._cursors[partition].pause_reason is not None
    sweeper._cursors[partition].resume_ms = 0
    sweeper._resume_due()


def test_what_was_not_moved_stays_when_another_topic_was_created_again(ids: dict[str, str]) -> None:
    """The expired letters that were read before are read again, moved, and only then removed."""
    kafka = _TwoTopics()
    sweeper = kafka.sweeper()
    with sweeper._membership(Event()):
        ids[BILLS.topic] = "b2"
        sweeper._turn()
        assert (kafka.moved, kafka.removed) == ([], [])
        sweeper._turn()
    assert len(kafka.moved) == 3
    assert kafka.removed == [{LETTERS: 3}]


@pytest.mark.usefixtures("ids")
def test_a_partition_that_cannot_be_fetched_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """What the same fetch had of the others is fetched again. The partition is tried again later."""
    kafka = _TwoTopics()
    kafka.add_bills(2)
    sweeper = kafka.sweeper("1")
    with sweeper._membership(Event()):
        kafka.unfetchable_now = [BILLS]
        sweeper._turn()
        sweeper._turn()
        assert kafka.removed == [{LETTERS: 3}]
        assert sweeper._cursors[BILLS].pause_reason is PauseReason.REFUSED
        assert kafka.paused == {BILLS}
        assert "expired dead letters of DLQ.bills-0 stay until it can be read" in caplog.text
        _resume(sweeper, BILLS)
        sweeper._turn()
    assert kafka.removed == [{LETTERS: 3}, {BILLS: 2}]


class _Time:
    """The brokers' time, which is asked with the commit of an offset."""

    def __init__(self) -> None:
        self.commits: list[Partition] = []

    def ask(self, checkpoints: Mapping[Partition, Checkpoint]) -> int:
        """See :class:`BrokerTime`."""
        self.commits += checkpoints
        return wall_clock_ms()


@pytest.mark.usefixtures("ids")
@pytest.mark.parametrize("when", ["assigned", "paused"])
def test_a_partition_without_a_leader_stops_no_other(when: str) -> None:
    """It goes on where the group has committed that its letters were moved."""
    kafka, time = _TwoTopics(), _Time()
    kafka.commits[BILLS] = Checkpoint(1, "c b1")
    kafka.leaderless = {BILLS} if when == "assigned" else set()
    sweeper = kafka.sweeper(time=cast("BrokerTime", time))
    with sweeper._membership(Event()):
        kafka.add_bills(2)
        kafka.leaderless = {BILLS}
        if when == "paused":
            sweeper._resume([BILLS])
        assert kafka.paused == {BILLS}
        sweeper._turn()
        assert ([each.value for each in kafka.moved], kafka.removed) == ([b"0", b"1", b"2"], [{LETTERS: 3}])
        _resume(sweeper, BILLS)
        assert sweeper._cursors[BILLS].pause_reason is PauseReason.REFUSED
        assert when == "paused" or time.commits == [LETTERS], "nothing is known of the other one that could be kept"
        kafka.leaderless.clear()
        _resume(sweeper, BILLS)
        assert kafka.paused == set()
        sweeper._turn()
    assert [each.value for each in kafka.moved[3:]] == ([b"1"] if when == "assigned" else [b"0", b"1"])
    assert kafka.removed == [{LETTERS: 3}, {BILLS: 2}]


@pytest.mark.usefixtures("ids")
def test_what_is_written_beside_a_refused_letter_is_not_written_again_and_again() -> None:
    """Without transactions: neither what is behind it, nor the letters of other partitions."""
    kafka = _TwoTopics()
    kafka.ends[LETTERS] = (0, 5)
    kafka.add_bills(2)
    kafka.refused = {b"2"}
    sweeper = kafka.sweeper()
    written: list[Counter[bytes | None]] = []
    with sweeper._membership(Event()):
        for _ in range(4):
            sweeper._turn()
            sweeper._turn()
            written.append(Counter(each.value for each in kafka.moved))
            _resume(sweeper, LETTERS)
        assert written[1:] == written[:1] * 3
        assert sweeper._cursors[LETTERS].start == 2
        assert kafka.commits[BILLS].offset == 2
        kafka.refused.clear()
        sweeper._turn()
        sweeper._turn()
    assert (kafka.ends[LETTERS], kafka.ends[BILLS]) == ((5, 5), (2, 2))
    assert Counter(each.value for each in kafka.moved)[b"2"] == 1


@pytest.mark.usefixtures("ids")
@pytest.mark.parametrize("committed", [False, True])
def test_a_move_of_unknown_outcome_is_counted_once(monkeypatch: pytest.MonkeyPatch, *, committed: bool) -> None:
    """Its transaction may have been committed before the writer has lost the answer."""
    kafka = _TwoTopics()
    sweeper = kafka.sweeper()

    def lose_answer(
        records: Sequence[ProducerRecord], checkpoints: Mapping[Partition, Checkpoint], **_: object
    ) -> None:
        monkeypatch.delattr(kafka, "write")
        if committed:
            kafka.write(records)
            kafka.finish(checkpoints)
        raise WriteAbortedError("timed out")

    monkeypatch.setattr(kafka, "write", lose_answer)
    with sweeper._membership(Event()):
        sweeper._turn()
        sweeper._turn()
    assert [each.value for each in kafka.moved] == [b"0", b"1", b"2"]
    assert (sweeper.reporter.total_moved[LETTERS], sweeper.reporter.total_removed[LETTERS]) == (3, 3)


@pytest.mark.parametrize(
    "error", [WriteRefusedError([RefusedRecord(0, "", RefusalCause.MISSING)]), WriteAbortedError("")]
)
def test_after_a_failed_move_the_expiry_topic_is_looked_up_again(error: Exception) -> None:
    """It may have been created again with fewer partitions."""
    reader, writer = StoredOffsets(counts={"EXP": 8}), Mock()
    plan = sweep_plan(load_settings(TEXT.replace("60000", "60000, expiryAddress: EXP")))
    expiry = ExpiryWriter(plan, cast("GroupReader", reader), writer)
    places = []
    for end in (error, None):
        writer.write.side_effect = end
        write = ExpiryWrite()
        expiry.add(write, "EXP", _letter(0, partition=Partition(LETTERS.topic, 7)), 0)
        places += [each.partition for each in write.records]
        with suppress(WriteAbortedError):
            expiry.write(write, {})
        reader.counts = {"EXP": 2}
    assert places == [7, 1]
