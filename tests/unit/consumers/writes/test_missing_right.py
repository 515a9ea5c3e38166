"""A missing right halts the partitions whose records need it. It decides about no record and ends no process."""

from dataclasses import replace

import pytest

from kafka_redelivery.consumers.flow.assigned_partition import initial_lineage
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.writes.committer import Committer
from kafka_redelivery.consumers.writes.dead_letter_audit import DeadLetterAudit
from kafka_redelivery.consumers.writes.engine import GIVE_UP_AFTER_S, End, Refused, WriteLimits
from kafka_redelivery.topology.policy.decision import Failure
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.errors import (
    OffsetsForbiddenError,
    RefusalCause,
    RefusedRecord,
    WriteAbortedError,
    WriteRefusedError,
)
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.batches import RAISED, REJECTED, handled, output, shared
from tests.unit.consumers.doubles import Clock, RecordingObserver, ScriptedWriter, StoredOffsets, no_stops
from tests.unit.consumers.records import entry, record, route, source

ORDERS = [Partition("orders", number) for number in range(3)]


def forbidden(*indexes: int, others_written: bool = True) -> WriteRefusedError:
    """The topics of the records with these indexes may not be written. There is no transaction, if the others are."""
    refused = [RefusedRecord(index, "no right", RefusalCause.FORBIDDEN) for index in indexes]
    return WriteRefusedError(refused, others_written=others_written)


class Parts:
    """A committer and its collaborators."""

    def __init__(self, *script: Exception, journal: bool = False, listed: bool = False) -> None:
        audits = DeadLetterAudit({"orders": entry()})
        self.shared = replace(shared(journal=journal), audits=audits, is_listed=lambda _: listed)
        self.writer = ScriptedWriter(list(script))
        self.observer = RecordingObserver()
        self.stops = no_stops(self.observer)
        self.offsets = StoredOffsets()
        self.committer = Committer(
            self.shared, self.writer, self.offsets, self.observer, WriteLimits(100), stops=self.stops
        )

    def write(self) -> End | None:
        """Write the batch."""
        self.committer.begin(())
        return self.committer.end(None)

    def tried_later(self, clock: Clock) -> bool:
        """Return whether the record of a halted partition is tried after half a minute, and wait for its answer."""
        clock.advance(30)
        tried = self.committer.try_halted(write_waits=False)
        self.committer.end(None)
        return tried


def test_only_the_partitions_that_need_the_topic_halt() -> None:
    """Each once, whatever the record is. No failure is stored, and the offsets of the others are committed."""
    parts = Parts(forbidden(0, 1, 2, 3))
    parts.committer.batch.add(handled(source(), record(0), outputs={0: [output(b"a"), output(b"b")]}))
    parts.committer.batch.add(handled(source(partition=1), record(0, partition=1), failures={0: REJECTED}))
    parts.committer.batch.add(handled(source(partition=1), record(1, partition=1), failures={0: RAISED}))
    parts.committer.batch.add(handled(source(partition=2), record(0, partition=2)))
    assert isinstance(parts.write(), Refused)
    assert parts.stops.unread == {*ORDERS[:2]}
    assert parts.shared.write_failures == {}
    assert parts.writer.finished == [{ORDERS[2]: Checkpoint(1, "")}]
    assert len(parts.observer.halt_causes) == 2
    assert all("grant the right Write on" in cause for cause in parts.observer.halt_causes)


def test_what_is_committed_beside_a_refusal_counts() -> None:
    """Its outcomes are reported, and its dead letters stay in the audit. What is handled again is neither."""
    parts = Parts(forbidden(0))
    parts.committer.batch.add(handled(source(), record(0), failures={0: REJECTED}))
    parts.committer.batch.add(handled(source(partition=1), record(0, partition=1), failures={0: REJECTED}))
    parts.committer.batch.add(handled(source(partition=2), record(0, partition=2), record(1, partition=2)))
    parts.write()
    assert parts.writer.finished == [{ORDERS[1]: Checkpoint(1, ""), ORDERS[2]: Checkpoint(2, "")}]
    [report] = parts.observer.commits
    assert {label.outcome: number for label, number in report.outcomes.items()} == {"dead_lettered": 1, "acked": 2}
    assert report.dead_letters == {("orders", "rejected"): 1}
    audits = parts.shared.audits
    assert [audits.is_duplicate(initial_lineage(record(0, partition=n), (), route())) for n in (0, 1)] == [False, True]


def test_nothing_counts_if_the_offsets_cannot_be_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records are handled again."""
    parts = Parts(forbidden(0))

    def refuse(_: object) -> None:
        raise WriteAbortedError("rebalance", unconfirmed=())

    monkeypatch.setattr(parts.writer, "finish", refuse)
    parts.committer.batch.add(handled(source(), record(0), failures={0: REJECTED}))
    parts.committer.batch.add(handled(source(partition=1), record(0, partition=1)))
    parts.write()
    assert parts.observer.commits == []


@pytest.mark.parametrize("reported", [["orders"], []], ids=["reported", "not reported"])
def test_offsets_that_may_not_be_committed_beside_a_refusal(
    monkeypatch: pytest.MonkeyPatch, reported: list[str]
) -> None:
    """Their topic is left out of the next writes, also if the brokers do not report rights: it is a first offset."""
    parts = Parts(forbidden(0))

    def refuse(_: object) -> None:
        raise OffsetsForbiddenError("no right", reported, unconfirmed=())

    monkeypatch.setattr(parts.writer, "finish", refuse)
    parts.committer.batch.add(handled(source(), record(0), failures={0: REJECTED}))
    parts.committer.batch.add(handled(source(partition=1), record(0, partition=1)))
    parts.write()
    assert set(parts.offsets.forbidden) == {"orders"}


@pytest.mark.parametrize("cause", [RefusalCause.FORBIDDEN, RefusalCause.TOO_LARGE])
def test_every_partition_needs_the_journal(cause: RefusalCause) -> None:
    """None can go on without it, whatever the cause. No consumed record has failed, and the worker does not end."""
    parts = Parts(WriteRefusedError([RefusedRecord(0, "no journal", cause)]), journal=True)
    for number in range(2):
        parts.committer.batch.add(handled(source(partition=number), record(0, partition=number)))
    assert isinstance(parts.write(), Refused)
    assert parts.stops.unread == {*ORDERS[:2]}
    assert parts.shared.write_failures == {}
    problem = "is halted at offset 0: Kafka refuses a record for billing.journal: no journal"
    assert all(problem in cause for cause in parts.observer.halt_causes)


def test_a_refusal_for_another_cause_is_decided() -> None:
    """It may be that of a record in the same write. Nothing is committed: not all other records are written."""
    both = [*forbidden(0).refused, RefusedRecord(1, "too large", RefusalCause.TOO_LARGE)]
    parts = Parts(WriteRefusedError(both, others_written=True))
    parts.committer.batch.add(handled(source(), record(0), failures={0: REJECTED}))
    parts.committer.batch.add(handled(source(partition=1), record(0, partition=1), outputs={0: [output(b"large")]}))
    parts.write()
    assert parts.stops.unread == {ORDERS[0]}
    assert set(parts.shared.write_failures) == {(ORDERS[1], 0)}
    assert parts.writer.finished == []


def test_nothing_is_committed_if_other_records_failed_as_well() -> None:
    """They are not written, for example because the broker did not answer in time."""
    parts = Parts(forbidden(0, others_written=False))
    parts.committer.batch.add(handled(source(), record(0), failures={0: REJECTED}))
    parts.committer.batch.add(handled(source(partition=1), record(0, partition=1), outputs={0: [output(b"late")]}))
    assert isinstance(parts.write(), Refused)
    assert parts.stops.unread == {ORDERS[0]}
    assert parts.writer.finished == []


def test_missing_rights_never_end_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long they are missing. Its writes do not count as failing: a halted partition says what is wrong."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.writes.engine.monotonic_s", clock)
    parts = Parts(*[forbidden(0) for _ in range(9)])
    for _ in range(9):
        parts.committer.batch.add(handled(source(), record(0), failures={0: REJECTED}))
        parts.write()
        clock.advance(GIVE_UP_AFTER_S / 4)
        parts.committer.report(Health())
        assert parts.observer.failing_s == 0
    assert len(parts.observer.abort_causes) == 9


def test_a_trial_is_told_the_growing_pause_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits longer for the answer, so that a partition of a slow cluster goes on in the end."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.flow.stops.monotonic_s", clock)
    unanswered = [WriteAbortedError("the broker did not say whether it accepts the record")] * 6
    parts = Parts(forbidden(0), *unanswered)
    parts.committer.batch.add(handled(source(), record(0), failures={0: REJECTED}))
    parts.write()
    for _ in range(7):
        clock.advance(30)
        assert parts.committer.try_halted(write_waits=False)
        parts.committer.end(None)
    assert parts.writer.pauses_s == [1, 2, 4, 8, 16, 30, 30]
    assert parts.stops.unread == set()


def test_trials_without_an_answer_leave_time_for_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """None begins for twice the time that the last one took, however many partitions are halted."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.flow.stops.monotonic_s", clock)
    parts = Parts(forbidden(0, 1), WriteAbortedError("no answer"))
    for number in range(2):
        parts.committer.batch.add(
            handled(source(partition=number), record(0, partition=number), failures={0: REJECTED})
        )
    parts.write()
    clock.advance(5)
    assert parts.committer.try_halted(write_waits=False)
    clock.advance(12)
    parts.committer.end(None)
    begun = []
    for _ in range(5):
        clock.advance(5)
        begun.append(parts.committer.try_halted(write_waits=False))
    assert begun == [False, False, False, False, True]


def test_after_an_outage_trials_begin_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial waits out an hour without Kafka. The next one begins half a minute later."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.flow.stops.monotonic_s", clock)
    parts = Parts(forbidden(0), WriteAbortedError("no answer"))
    parts.committer.batch.add(handled(source(), record(0), failures={0: REJECTED}))
    parts.write()
    clock.advance(1)
    assert parts.committer.try_halted(write_waits=False)
    clock.advance(3600)
    parts.committer.end(None)
    clock.advance(30)
    assert parts.committer.try_halted(write_waits=False)


def test_a_halted_record_that_is_refused_for_its_size_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The right is there again, and the next write decides about the record."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.flow.stops.monotonic_s", clock)
    too_large = WriteRefusedError([RefusedRecord(0, "too large", RefusalCause.TOO_LARGE)])
    parts = Parts(forbidden(0), too_large)
    parts.committer.batch.add(handled(source(), record(0), outputs={0: [output(b"large")]}))
    parts.write()
    assert parts.tried_later(clock)
    assert parts.stops.unread == set()


@pytest.mark.parametrize("listed", [False, True])
def test_a_halted_record_whose_output_is_deleted(monkeypatch: pytest.MonkeyPatch, *, listed: bool) -> None:
    """The next write decides: without the topic a record has failed whose output is not listed; others wait for it."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.flow.stops.monotonic_s", clock)
    missing = WriteRefusedError([RefusedRecord(0, "no such topic", RefusalCause.MISSING)])
    parts = Parts(forbidden(0), missing, missing, missing, listed=listed)
    parts.committer.batch.add(handled(source(), record(0), outputs={0: [output(b"a")]}))
    parts.write()
    assert parts.tried_later(clock)
    assert parts.stops.unread == set()
    parts.committer.batch.add(handled(source(), record(0), outputs={0: [output(b"a")]}))
    parts.write()
    assert parts.stops.unread == ({ORDERS[0]} if listed else set())
    assert (parts.shared.write_failures == {}) is listed
    assert parts.tried_later(clock) is listed
    assert parts.stops.unread == ({ORDERS[0]} if listed else set())


@pytest.mark.parametrize("failure", [RAISED, REJECTED])
def test_a_halted_retry_or_dead_letter_whose_topic_is_deleted(
    monkeypatch: pytest.MonkeyPatch, failure: Failure
) -> None:
    """Its topic is no output: whatever a handler names, the record waits for it."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.flow.stops.monotonic_s", clock)
    missing = WriteRefusedError([RefusedRecord(0, "no such topic", RefusalCause.MISSING)])
    parts = Parts(forbidden(0), missing)
    parts.committer.batch.add(handled(source(), record(0), failures={0: failure}))
    parts.write()
    assert parts.tried_later(clock)
    assert parts.stops.unread == {ORDERS[0]}


def test_a_dead_letter_that_is_too_large_stays_halted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each refusal of its trial is that which halted its partition."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.flow.stops.monotonic_s", clock)
    too_large = WriteRefusedError([RefusedRecord(0, "too large", RefusalCause.TOO_LARGE)])
    parts = Parts(too_large, too_large)
    parts.committer.batch.add(handled(source(), record(0), failures={0: REJECTED}))
    parts.write()
    assert parts.tried_later(clock)
    assert parts.stops.unread == {ORDERS[0]}
