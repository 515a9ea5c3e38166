"""A duplicate is not dead-lettered again, and nothing else is ever taken for one."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.consumers.routes import RetryTopics
from kafka_redelivery.consumers.scheduler.release import Release, ReleaseBuilder
from kafka_redelivery.consumers.telemetry.failure_log import DiscardReport
from kafka_redelivery.consumers.writes.batch import Batch
from kafka_redelivery.consumers.writes.committer import Committer
from kafka_redelivery.consumers.writes.dead_letter_audit import DeadLetterAudit
from kafka_redelivery.consumers.writes.decisions import BatchDependencies
from kafka_redelivery.consumers.writes.engine import Rewind, WriteLimits
from kafka_redelivery.topology.policy.decision import Reason
from kafka_redelivery.topology.policy.entry import DeadLetterKind, DeadLetterStrategy, PolicyEntry
from kafka_redelivery.topology.policy.lineage import IMPORTED_OFFSETS
from kafka_redelivery.topology.topics.naming import Naming
from kafka_redelivery.topology.topics.tiers import TierSet
from kafka_redelivery.topology.wire.headers import SCHEDULED_DELIVERY
from kafka_redelivery.transport.errors import WriteAbortedError
from tests.unit.consumers.batches import COUNTS, DEAD, JOURNAL, REJECTED, handled
from tests.unit.consumers.doubles import RecordingObserver, ScriptedWriter, StoredOffsets
from tests.unit.consumers.records import NOW, entry, lineage, ready, record, redelivery, route, source
from tests.unit.consumers.scheduler.test_release import TIER, configured, waiting

ENTRY = entry()


def common(policy: PolicyEntry = ENTRY, *, journal: bool = False) -> BatchDependencies:
    """The dependencies of batches of ``orders``, with an audit."""
    return BatchDependencies(
        group="billing",
        retry_topics=RetryTopics(Naming(group="billing"), TierSet((1000,), mixed=False), COUNTS),
        clock=lambda: NOW,
        jitter=lambda: iter(()),
        write_failures={},
        journal=JOURNAL if journal else None,
        audits=DeadLetterAudit({"orders": policy}),
    )


def rejected(shared: BatchDependencies, offset: int, *, redriven: bool = False, origin: int = 7) -> Batch:
    """A batch with one redelivery of record 7 that is rejected."""
    message = redelivery(offset, lineage(origin))
    if redriven:
        message.pairs = [pair for pair in message.pairs or () if pair[0] != SCHEDULED_DELIVERY]
    batch = Batch(shared)
    batch.add(handled(ready(partition=5, next_offset=offset), message, failures={0: REJECTED}))
    batch.close()
    return batch


def dead_letters(batch: Batch) -> int:
    """Number of dead letters in the batch."""
    return sum(each.topic == DEAD for each in batch.produced)


@pytest.mark.parametrize("redriven", [True, False])
def test_an_imported_message_does_not_make_the_audit_forget_records(*, redriven: bool) -> None:
    """Its number is higher than that of any record."""
    shared = common()
    for offset, origin in enumerate((7, IMPORTED_OFFSETS + 12345)):
        assert dead_letters(rejected(shared, 10 + offset, redriven=redriven and offset > 0, origin=origin)) == 1
    assert dead_letters(rejected(shared, 12)) == 0
    assert dead_letters(rejected(shared, 13, origin=8)) == 1
    assert dead_letters(rejected(shared, 14, origin=8)) == 0


def test_a_duplicate_of_a_redelivery_is_discarded() -> None:
    """It is counted with its reason, its offset is committed, and the journal contains it."""
    shared = common(journal=True)
    assert dead_letters(rejected(shared, 10)) == 1
    second = rejected(shared, 11)
    assert dead_letters(second) == 0
    report = second.tally.report(0.0)
    assert (dict(report.discarded), dict(report.dead_letters)) == ({("orders", "duplicate"): 1}, {})
    assert [(label.outcome, label.ack_type.name) for label in report.outcomes] == [("discarded", "POISON")]
    assert b'"discarded":[[7,7]]' in (second.produced[0].value or b"")


def test_without_enable_audit_a_duplicate_is_dead_lettered() -> None:
    """``enableAudit: false``."""
    shared = common(entry(strategy=DeadLetterStrategy(enable_audit=False)))
    assert [dead_letters(rejected(shared, offset)) for offset in (10, 11)] == [1, 1]


def test_a_redriven_record_may_be_dead_lettered_again() -> None:
    """This holds for every redrive; a second retry record of it is a duplicate again."""
    shared = common()
    assert [dead_letters(rejected(shared, 10 + n, redriven=n in {1, 2})) for n in range(4)] == [1, 1, 1, 0]


def test_an_aborted_write_that_is_not_repeated_removes_its_dead_letters_from_the_audit() -> None:
    """Unless its records were written, and only the offsets were not committed."""
    for unconfirmed, number in ((None, 1), ((), 0)):
        shared = common()
        committer = Committer(
            shared,
            ScriptedWriter([WriteAbortedError("gone", unconfirmed=unconfirmed)]),
            StoredOffsets(),
            RecordingObserver(),
            WriteLimits(100),
        )
        committer.batch = rejected(shared, 10)
        committer.begin(())
        assert isinstance(committer.end(None, repeats=False), Rewind)
        committer.discard()
        assert dead_letters(rejected(shared, 10)) == number


def test_a_discarded_batch_removes_its_dead_letters_from_the_audit() -> None:
    """The batch that was collected while another write was aborted."""
    shared = common()
    committer = Committer(shared, ScriptedWriter(), StoredOffsets(), RecordingObserver(), WriteLimits(100))
    committer.batch = rejected(shared, 10)
    committer.discard()
    assert dead_letters(rejected(shared, 10)) == 1


def test_an_assignment_or_revocation_empties_the_audit_of_a_partition() -> None:
    """Other partitions are not affected."""
    shared = common()
    committer = Committer(shared, ScriptedWriter(), StoredOffsets(), RecordingObserver(), WriteLimits(100))
    assert dead_letters(rejected(shared, 10)) == 1
    committer.start_anew(source(partition=4))
    assert dead_letters(rejected(shared, 11)) == 0
    committer.start_anew(ready(partition=4))
    assert dead_letters(rejected(shared, 12)) == 0
    committer.start_anew(ready(partition=5))
    assert dead_letters(rejected(shared, 13)) == 1


def test_a_partition_of_the_ready_topic_stands_for_all_source_partitions_that_share_it() -> None:
    """``topics.maxPartitions`` can be smaller than the number of source partitions."""
    audits = DeadLetterAudit({"orders": ENTRY})
    for partition in range(12):
        assert not audits.is_duplicate(lineage(7, partition=partition))
    audits.drop_partition("orders", 1, 4)
    assert [number for number in range(12) if not audits.is_duplicate(lineage(7, partition=number))] == [1, 5, 9]
    audits.drop_partition("orders", 1)
    assert [number for number in range(12) if not audits.is_duplicate(lineage(7, partition=number))] == [1]


def test_the_sources_of_a_shared_strategy_share_an_audit() -> None:
    """Its bound covers all sources; an individual strategy has a bound per source."""
    for kind, known in ((DeadLetterKind.SHARED, False), (DeadLetterKind.INDIVIDUAL, True)):
        strategy = DeadLetterStrategy(kind=kind, max_producers_to_audit=1)
        audits = DeadLetterAudit(dict.fromkeys(("orders", "bills"), entry(strategy=strategy)))
        assert not audits.is_duplicate(lineage(7))
        assert not audits.is_duplicate(lineage(7)._replace(address="bills"))
        assert audits.is_duplicate(lineage(7)) is known


@given(st.lists(st.tuples(st.integers(0, 80), st.integers(0, 5000)), unique=True, max_size=200))
def test_a_new_record_is_never_a_duplicate(origins: list[tuple[int, int]]) -> None:
    """The bounds of the audit can lead to a second dead letter, but never to a lost one."""
    audits = DeadLetterAudit({"orders": ENTRY})
    assert not any(audits.is_duplicate(lineage(offset, partition=partition)) for partition, offset in origins)


def test_a_scheduler_discards_a_duplicate_that_it_cannot_release() -> None:
    """It has the same origin and due time. A record with another due time was redriven in between."""
    audits = DeadLetterAudit(configured().entries())
    counts = {"billing.retry.2s": 4, "billing.ready.orders": 2, "DLQ.orders": 2, "DLQ.invoices": 2}
    maker = ReleaseBuilder(configured(), TierSet((1000, 2000), mixed=True), counts, audits)
    release = Release()
    for due_ms in (NOW, NOW, NOW + 1):
        maker.add(release, TIER, waiting(lineage(7), due_ms=due_ms), NOW, "too large")
    assert len(release.produced) == 2
    assert release.discarded == {("orders", "duplicate"): 1}
    audits.withdraw([noted for noted, _ in release.audited], f"/{NOW}")
    maker.add(release, TIER, waiting(lineage(7)), NOW, "too large")
    assert len(release.produced) == 3


class TestReport:
    """``reportInterval``."""

    def test_each_interval_is_one_line(self, caplog: pytest.LogCaptureFixture) -> None:
        """The number of records per write does not matter, and intervals are counted separately."""
        report = DiscardReport()
        with caplog.at_level(logging.INFO):
            for number in (9, 1, 25, 0):
                report.add({10: number})
            report.add({100: 99})
        assert [message.split()[5] for message in caplog.messages] == ["10", "20", "30"]

    def test_only_what_the_plugin_drops_is_reported(self) -> None:
        """What other strategies discard, and duplicates, are not reported."""
        plugin = DeadLetterStrategy(kind=DeadLetterKind.DISCARDING, poison_report_interval=10)
        for strategy, dropped in ((plugin, {10: 1}), (DeadLetterStrategy(kind=DeadLetterKind.DISCARDING), {})):
            batch = Batch(common(entry(strategy=strategy)))
            of = source(route(entry(strategy=strategy)))
            batch.add(handled(of, record(0), failures={0: REJECTED}))
            assert dict(batch.tally.dropped) == dropped
            assert batch.tally.report(0.0).discarded == {("orders", Reason.REJECTED): 1}


def test_a_record_of_a_source_that_was_created_again() -> None:
    """It repeats topic, partition and offset, but not the time, so that it is no duplicate; a second one of it is."""
    audit = DeadLetterAudit({"orders": ENTRY})
    before, after = lineage(7), lineage(7)._replace(timestamp_ms=lineage(7).timestamp_ms + 1)
    assert [audit.is_duplicate(each) for each in (before, before, after, after)] == [False, True, False, True]
    audit.withdraw([after])
    assert not audit.is_duplicate(after)
    for offset in range(8, 5000):  # what is remembered stays bounded
        audit.is_duplicate(lineage(offset))
    (window,) = audit._audits["orders"]._windows.values()
    assert len(window.marks) <= 2200
