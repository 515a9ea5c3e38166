"""The committer reports a batch only after the broker has committed it, and handles every refusal and abort."""

import pytest

from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.observers import HaltCause, HaltLabel
from kafka_redelivery.consumers.writes.committer import LINGER_S, Committer
from kafka_redelivery.consumers.writes.engine import GIVE_UP_AFTER_S, Committed, End, Refused, Rewind, WriteLimits
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.policy.entry import DeadLetterKind, DeadLetterStrategy
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.errors import (
    RefusalCause,
    RefusedRecord,
    WriteAbortedError,
    WriteRefusedError,
    WriterFencedError,
)
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.batches import DEAD, OUT_OF_MEMORY, RAISED, REJECTED, TIER, handled, output, shared
from tests.unit.consumers.doubles import Clock, RecordingObserver, ScriptedWriter, StoredOffsets, no_stops
from tests.unit.consumers.records import entry, lineage, ready, record, redelivery, route, source

ORDERS = Partition("orders", 0)
TOO_LARGE = "Broker: Message size too large"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The committer's clock."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.writes.committer.monotonic_s", clock)
    monkeypatch.setattr("kafka_redelivery.consumers.writes.engine.monotonic_s", clock)
    monkeypatch.setattr("kafka_redelivery.consumers.flow.stops.monotonic_s", clock)
    return clock


class Parts:
    """A committer and its collaborators."""

    def __init__(self, *script: Exception, journal: bool = False, max_records: int = 100) -> None:
        self.shared = shared(journal=journal)
        self.writer = ScriptedWriter(list(script))
        self.observer = RecordingObserver()
        self.stops = no_stops(self.observer)
        self.committer = Committer(
            self.shared, self.writer, StoredOffsets(), self.observer, WriteLimits(max_records), stops=self.stops
        )

    def write(self, *assigned: AssignedPartition) -> End | None:
        """Write the batch, once. The positions of ``assigned`` are committed, too."""
        self.committer.begin(assigned)
        return self.committer.end(None, repeats=False)


def refused(*indexes: int) -> WriteRefusedError:
    """The broker refuses the produced records with these indexes."""
    return WriteRefusedError([RefusedRecord(index, TOO_LARGE, RefusalCause.TOO_LARGE) for index in indexes])


class TestCommitted:
    def test_produced_records_and_offsets_are_one_write(self) -> None:
        """Afterwards the batch is empty."""
        parts, assigned = Parts(), source()
        parts.committer.batch.add(handled(assigned, record(0), record(1), failures={1: RAISED}))
        assert isinstance(parts.write(), Committed)
        [(produced, checkpoints)] = parts.writer.confirmed
        assert [each.topic for each in produced] == [TIER]
        assert checkpoints == {ORDERS: Checkpoint(2, "")}
        assert parts.committer.batch.size == 0

    def test_the_observer_gets_a_report_of_a_committed_write(self) -> None:
        parts = Parts()
        parts.committer.batch.add(handled(source(), record(0)))
        parts.writer.seconds = 0.5
        parts.write()
        [report] = parts.observer.commits
        assert report.seconds == 0.5
        assert sum(report.outcomes.values()) == 1

    def test_an_empty_batch_is_not_written(self) -> None:
        parts = Parts()
        assert parts.write() is None
        assert parts.writer.tried == []
        assert parts.observer.commits == []

    def test_a_first_position_is_committed_alone(self) -> None:
        """A source that is read for the first time keeps its start offset."""
        parts, assigned = Parts(), source(next_offset=17)
        assigned.dirty = True
        parts.write(assigned)
        assert parts.writer.confirmed == [([], {ORDERS: Checkpoint(17, "")})]
        assert not assigned.dirty

    def test_the_journal_is_part_of_the_write(self) -> None:
        parts = Parts(journal=True)
        parts.committer.batch.add(handled(source(), record(0)))
        parts.write()
        [(produced, _)] = parts.writer.confirmed
        assert [each.topic for each in produced] == ["billing.journal"]


class TestRefused:
    def test_a_refused_retry_record_stores_a_failure(self) -> None:
        """The worker rewinds. When the record is fetched again, this failure dead-letters it."""
        parts, assigned = Parts(refused(0)), source()
        parts.committer.batch.add(handled(assigned, record(0), record(1), failures={1: RAISED}))
        assert isinstance(parts.write(), Refused)
        assert parts.writer.confirmed == []
        assert parts.shared.write_failures == {
            (ORDERS, 1): Failure(FailureKind.UNDELIVERABLE, "WriteRefused", TOO_LARGE)
        }
        assert parts.observer.commits == []
        assert len(parts.observer.abort_causes) == 1

    def test_a_refused_output_fails_its_record(self) -> None:
        """As if the handler had raised. The other records of the batch have no failure."""
        parts = Parts(refused(1, 2))
        items = {0: [output(b"fine")], 1: [output(b"big"), output(b"big, too")]}
        parts.committer.batch.add(handled(source(), record(0), record(1), outputs=items))
        assert isinstance(parts.write(), Refused)
        assert parts.shared.write_failures == {(ORDERS, 1): Failure(FailureKind.RAISED, "WriteRefused", TOO_LARGE)}

    def test_a_refused_dead_letter_halts_its_partition(self) -> None:
        """The record can be written nowhere, and must not be lost."""
        parts, assigned, other = Parts(refused(0)), source(), source(partition=1)
        parts.committer.batch.add(handled(assigned, record(0), failures={0: REJECTED}))
        parts.committer.batch.add(handled(other, record(0, partition=1), failures={0: REJECTED}))
        assert isinstance(parts.write(), Refused)
        assert parts.stops.unread == {assigned.partition}
        [cause] = parts.observer.halt_causes
        assert "orders-0 is halted at offset 0" in cause
        assert TOO_LARGE in cause

    def test_trials_and_writes_take_turns(self, clock: Clock) -> None:
        """A hundred halted partitions do not keep the others from writing."""
        parts = Parts(*[refused(0)] * 3)
        for number in range(2):
            assigned = source(partition=number)
            parts.committer.batch.add(handled(assigned, record(0, partition=number), failures={0: REJECTED}))
            parts.write()
        clock.advance(1)
        begun = []
        for write_waits in (True, True, True, False):
            begun.append(parts.committer.try_halted(write_waits=write_waits))
            parts.committer.end(None)
            clock.advance(60)
        assert begun == [True, False, True, True]

    def test_a_halted_partition_is_tried_again_and_goes_on(self, clock: Clock) -> None:
        """The dead letter alone is tried, between two writes. The halt ends when the record is finished."""
        parts, assigned = Parts(refused(0), refused(0)), source()
        parts.committer.batch.add(handled(assigned, record(0), failures={0: REJECTED}))
        parts.write()
        parts.committer.try_halted(write_waits=False)
        assert not parts.committer.writing
        assert parts.stops.unread == {ORDERS}
        for seconds, paused in ((1, {ORDERS}), (2, set())):
            clock.advance(seconds)
            parts.committer.try_halted(write_waits=False)
            assert parts.committer.writing
            assert not parts.committer.should_write(more_to_come=False)
            assert parts.committer.end(None) is None
            assert parts.stops.unread == paused
        assert ([each.topic for each in parts.writer.tried[-1][0]], len(parts.observer.abort_causes)) == ([DEAD], 1)
        parts.stops.report()
        assert parts.observer.halted_numbers == {HaltLabel(DEAD, HaltCause.TOO_LARGE): 1}
        again = source()
        parts.committer.batch.add(handled(again, record(0), failures={0: REJECTED}))
        assert isinstance(parts.write(), Committed)
        parts.stops.report()
        assert parts.observer.halted_numbers == {}

    def test_refusals_lead_from_output_to_retry_record_to_dead_letter(self) -> None:
        """A refused dead letter halts the partition."""
        parts, assigned = Parts(refused(0), refused(0), refused(0)), source()
        parts.committer.batch.add(handled(assigned, record(0), outputs={0: [output(b"big")]}))
        assert isinstance(parts.write(), Refused)
        topics = []
        for halted in (set(), {assigned.partition}):
            failure = parts.shared.write_failures[ORDERS, 0]
            again = source()
            again.progress.track(0)
            parts.committer.batch.add_failure(again, record(0), lineage(0, partition=0, deliveries=0), failure)
            assert isinstance(parts.write(), Refused)
            topics.append(parts.writer.tried[-1][0][0].topic)
            assert parts.stops.unread == halted
        assert topics == [TIER, DEAD]

    def test_a_write_failure_is_kept_until_its_record_is_finished(self) -> None:
        """After the rewind, records of another partition may be written first."""
        parts, assigned, other = Parts(refused(0)), source(), source(partition=1)
        parts.committer.batch.add(handled(assigned, record(0), record(1), failures={1: RAISED}))
        parts.write()
        parts.committer.batch.add(handled(other, record(0, partition=1)))
        parts.write()
        assert (ORDERS, 1) in parts.shared.write_failures
        again = source()
        parts.committer.batch.add(handled(again, record(0)))
        parts.write()
        assert (ORDERS, 1) in parts.shared.write_failures
        parts.committer.batch.add(handled(again, record(1)))
        parts.write()
        assert parts.shared.write_failures == {}


class TestAborted:
    def test_the_worker_rewinds(self, caplog: pytest.LogCaptureFixture) -> None:
        """No outcome is counted, no failure is stored, and the next batch contains nothing of the aborted one."""
        parts = Parts(WriteAbortedError("timed out"))
        parts.committer.batch.add(handled(source(), record(0), failures={0: RAISED}))
        assert isinstance(parts.write(), Rewind)
        assert parts.observer.abort_causes == ["timed out"]
        assert "a write of 1 records was aborted: timed out" in caplog.messages
        assert parts.shared.write_failures == {}
        parts.committer.batch.add(handled(source(), record(0)))
        assert isinstance(parts.write(), Committed)
        assert parts.writer.confirmed == [([], {ORDERS: Checkpoint(1, "")})]

    def attempts(self, parts: Parts, clock: Clock, number: int, every_s: float) -> None:
        for offset in range(number):
            parts.committer.batch.add(handled(source(next_offset=offset), record(offset)))
            parts.write()
            clock.advance(every_s)

    def test_a_long_series_of_aborted_writes_is_reported_and_ends_nothing(self, clock: Clock) -> None:
        """Until a write is committed."""
        parts, health = Parts(*[WriteAbortedError(f"no {number}") for number in range(90)]), Health(clock_s=clock)
        health.joined()
        self.attempts(parts, clock, 7, every_s=GIVE_UP_AFTER_S / 6)
        parts.committer.report(health)
        assert health.ready().ok
        self.attempts(parts, clock, 83, every_s=GIVE_UP_AFTER_S / 6)
        parts.committer.report(health)
        reason = "waiting for Kafka: every write of the last 890 s was aborted, because: no 89"
        assert health.ready() == (False, reason)
        assert health.alive().ok
        assert parts.observer.failing_s == pytest.approx(900)
        self.attempts(parts, clock, 1, every_s=0)
        parts.committer.report(health)
        assert health.ready().ok
        assert parts.observer.failing_s == 0

    def test_pauses_grow(self, clock: Clock) -> None:
        """No write begins during a pause, not even of a full batch. There is none after a single aborted write."""
        parts = Parts(*[WriteAbortedError("no") for _ in range(10)], max_records=1)
        pauses = []
        for offset in range(10):
            parts.committer.batch.add(handled(source(next_offset=offset), record(offset)))
            began_s = clock.now_s
            while not parts.committer.should_write(more_to_come=False):
                assert 0 < parts.committer.write_due_in_s(60) <= 5
                clock.advance(0.1)
            pauses.append(clock.now_s - began_s)
            parts.write()
        assert pauses[:2] == [0, 0]
        assert pauses == sorted(pauses)
        assert 0 < pauses[2] < 1
        assert 4 < pauses[-1] < 6

    def test_the_number_of_aborted_writes_does_not_matter(self, clock: Clock) -> None:
        """Each refused record of a batch can abort a write."""
        parts = Parts(*[refused(0) for _ in range(500)])
        for offset in range(500):
            parts.committer.batch.add(handled(source(), record(offset), failures={0: RAISED}))
            assert not parts.committer.backing_off
            assert isinstance(parts.write(), Refused)
            clock.advance(GIVE_UP_AFTER_S / 1000)

    def test_a_committed_write_ends_a_series(self, clock: Clock) -> None:
        parts = Parts()
        for _ in range(4):
            parts.writer.script = [WriteAbortedError("")] * 3
            self.attempts(parts, clock, 4, every_s=GIVE_UP_AFTER_S / 4)
        assert len(parts.writer.confirmed) == 4

    def test_a_fenced_writer_is_the_callers_error(self) -> None:
        parts = Parts(WriterFencedError("replaced"))
        parts.committer.batch.add(handled(source(), record(0)))
        with pytest.raises(WriterFencedError):
            parts.write()


class TestHalt:
    def test_outcomes_before_the_record_are_committed(self) -> None:
        """Nothing past the record is committed, and the message names it."""
        parts, assigned = Parts(), source()
        failures = {1: OUT_OF_MEMORY}
        parts.committer.batch.add(handled(assigned, *map(record, range(4)), failures=failures, position=2))
        with pytest.raises(HaltedError, match="MemoryError: all of it; nothing is committed past orders-0@1"):
            parts.write()
        assert parts.writer.confirmed == [([], {ORDERS: Checkpoint(1, "")})]

    def test_an_aborted_write_does_not_halt(self) -> None:
        """The record is handled and decided again."""
        parts = Parts(WriteAbortedError(""))
        parts.committer.batch.add(handled(source(), record(0), failures={0: OUT_OF_MEMORY}))
        assert isinstance(parts.write(), Rewind)

    def test_the_message_names_the_offset_in_the_ready_topic(self) -> None:
        parts = Parts()
        message = redelivery(9, lineage(42, partition=5))
        parts.committer.batch.add(handled(ready(partition=5), message, failures={0: OUT_OF_MEMORY}))
        with pytest.raises(HaltedError, match=r"billing.ready.orders-5@9"):
            parts.write()


class TestShouldWrite:
    def test_never_an_empty_batch(self, clock: Clock) -> None:
        parts = Parts()
        assert not parts.committer.should_write(more_to_come=False)
        clock.advance(1)
        assert not parts.committer.should_write(more_to_come=True)

    def test_an_idle_worker_writes_immediately(self) -> None:
        parts = Parts()
        parts.committer.batch.add(handled(source(), record(0)))
        assert parts.committer.should_write(more_to_come=False)

    def test_a_busy_worker_lingers(self, clock: Clock) -> None:
        """The time counts from the first outcome of each batch."""
        parts = Parts()
        for _ in range(2):
            parts.committer.batch.add(handled(source(), record(0)))
            assert not parts.committer.should_write(more_to_come=True)
            clock.advance(LINGER_S / 2)
            assert not parts.committer.should_write(more_to_come=True)
            clock.advance(LINGER_S)
            assert parts.committer.should_write(more_to_come=True)
            parts.write()

    def test_outcomes_of_the_time_of_a_write_are_the_next_batch(self, clock: Clock) -> None:
        """A batch that is not full is written after a rest as long as the last write."""
        parts = Parts(max_records=2)
        parts.writer.slow, parts.writer.seconds = True, 0.03
        parts.committer.batch.add(handled(source(), record(0)))
        parts.committer.begin(())
        for n in (1, 2):
            parts.committer.batch.add(handled(source(partition=n), record(0, partition=n)))
            assert not parts.committer.should_write(more_to_come=False)
        assert parts.committer.full
        assert parts.committer.end() is None
        assert parts.committer.writing

        parts.writer.slow = False
        assert isinstance(parts.committer.end(), Committed)
        assert not parts.committer.writing
        assert parts.committer.should_write(more_to_come=True)  # full
        parts.write()
        assert [set(checkpoints) for _, checkpoints in parts.writer.confirmed] == [
            {ORDERS},
            {Partition("orders", 1), Partition("orders", 2)},
        ]
        parts.committer.batch.add(handled(source(), record(0)))
        assert not parts.committer.should_write(more_to_come=False)
        clock.advance(0.03)
        assert parts.committer.should_write(more_to_come=False)

    def test_a_halt_is_written_immediately(self) -> None:
        parts = Parts()
        parts.committer.batch.add(handled(source(), record(0), failures={0: OUT_OF_MEMORY}))
        assert parts.committer.should_write(more_to_come=True)

    def test_a_full_batch_is_written_immediately(self) -> None:
        """The number of records counts, whatever their outcomes are."""
        parts = Parts(max_records=3)
        parts.committer.batch.add(handled(source(), record(0), record(1), failures={0: OUT_OF_MEMORY}))
        assert not parts.committer.full
        parts.committer.batch.add(handled(source(partition=1), record(0, partition=1)))
        assert parts.committer.full
        assert parts.committer.should_write(more_to_come=True)


def test_a_discarded_record_removes_its_write_failure() -> None:
    """It produces no record, but it is finished."""
    parts = Parts()
    assigned = source(route(entry(strategy=DeadLetterStrategy(kind=DeadLetterKind.DISCARDING))))
    assigned.progress.track(0)
    failure = Failure(FailureKind.UNDELIVERABLE)
    parts.shared.write_failures[ORDERS, 0] = failure
    parts.committer.batch.add_failure(assigned, record(0), lineage(0, partition=0, deliveries=0), failure)
    parts.write()
    assert parts.shared.write_failures == {}


def test_a_discarded_batch_is_not_written() -> None:
    """As after a rewind."""
    parts = Parts()
    parts.committer.batch.add(handled(source(), record(0), failures={0: RAISED}))
    parts.committer.discard()
    parts.write()
    assert parts.writer.tried == []


def test_closing_releases_the_writer() -> None:
    """The committer owns the writer."""
    parts = Parts()
    parts.committer.close()
    assert parts.writer.closed
