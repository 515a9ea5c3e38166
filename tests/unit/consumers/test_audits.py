"""A duplicate is not dead-lettered again, and nothing else is ever taken for one."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.audits import Audits
from consumers.batch import Batch, Shared
from consumers.committer import Committer
from consumers.discard_report import DiscardReport
from consumers.release import Release, Releaser
from consumers.routes import Waiting
from tests.unit.consumers.batches import COUNTS, DEAD, JOURNAL, REJECTED, handled
from tests.unit.consumers.doubles import Noting, ScriptedWriter
from tests.unit.consumers.records import NOW, entry, lineage, ready, record, redelivery, route, source
from tests.unit.consumers.test_release import TIER, configured, held
from topology.decision import Reason
from topology.headers import SCHEDULED_DELIVERY
from topology.naming import Naming
from topology.policy import DeadLetterKind, DeadLetterStrategy, PolicyEntry
from topology.tiers import TierSet
from transport.errors import WriteUndoneError

ENTRY = entry()


def common(policy: PolicyEntry = ENTRY, *, journal: bool = False) -> Shared:
    """What batches of ``orders`` share, with an audit."""
    return Shared(
        group="billing",
        waiting=Waiting(Naming(group="billing"), TierSet((1000,), mixed=False), COUNTS),
        clock=lambda: NOW,
        jitter=lambda: iter(()),
        verdicts={},
        journal=JOURNAL if journal else None,
        audits=Audits({"orders": policy}),
    )


def died(shared: Shared, offset: int, *, redriven: bool = False) -> Batch:
    """A batch with one redelivery of record 7 that is rejected."""
    message = redelivery(offset, lineage(7))
    if redriven:
        message.pairs = [pair for pair in message.pairs or () if pair[0] != SCHEDULED_DELIVERY]
    batch = Batch(shared)
    batch.add(handled(ready(partition=5, next_offset=offset), message, failures={0: REJECTED}))
    batch.close()
    return batch


def letters(batch: Batch) -> int:
    """How many dead letters it writes."""
    return sum(copy.topic == DEAD for copy in batch.copies)


def test_a_second_copy_of_a_redelivery_is_dropped() -> None:
    """Counted as discarded, with its reason; its offset is finished and the journal says so."""
    shared = common(journal=True)
    assert letters(died(shared, 10)) == 1
    second = died(shared, 11)
    assert letters(second) == 0
    told = second.committed(0.0)
    assert (dict(told.discarded), dict(told.dead_letters)) == ({("orders", "duplicate"): 1}, {})
    assert [(label.outcome, label.ack_type.name) for label in told.outcomes] == [("discarded", "POISON")]
    assert b'"discarded":[[7,7]]' in (second.copies[0].value or b"")


def test_without_enable_audit_it_is_not() -> None:
    """Nothing is remembered."""
    shared = common(entry(strategy=DeadLetterStrategy(enable_audit=False)))
    assert [letters(died(shared, offset)) for offset in (10, 11)] == [1, 1]


def test_a_redriven_record_may_die_again() -> None:
    """As often as it is redriven; a copy of it is a duplicate again."""
    shared = common()
    assert [letters(died(shared, 10 + n, redriven=n in {1, 2})) for n in range(4)] == [1, 1, 1, 0]


def test_what_is_undone_was_not_dead_lettered() -> None:
    """Unless its copies are there for good, and only the offsets are not committed."""
    for copied, number in ((False, 1), (True, 0)):
        shared = common()
        committer = Committer(shared, ScriptedWriter([WriteUndoneError("gone", copied=copied)]), Noting(), 100)
        committer.batch = died(shared, 10)
        committer.begin(())
        assert committer.settle(None) == []
        assert letters(died(shared, 10)) == number


def test_what_is_discarded_unwritten_was_not_dead_lettered() -> None:
    """The batch that grows while another is undone."""
    shared = common()
    committer = Committer(shared, ScriptedWriter(), Noting(), 100)
    committer.batch = died(shared, 10)
    committer.discard()
    assert letters(died(shared, 10)) == 1


def test_a_partition_takes_its_memory_along() -> None:
    """And leaves that of others."""
    shared = common()
    committer = Committer(shared, ScriptedWriter(), Noting(), 100)
    assert letters(died(shared, 10)) == 1
    committer.forget(source(partition=4))
    assert letters(died(shared, 11)) == 0
    committer.forget(ready(partition=5))
    assert letters(died(shared, 12)) == 1


def test_a_shared_strategy_has_one_memory() -> None:
    """Its bound is for all its sources together, that of an individual one for each."""
    for kind, known in ((DeadLetterKind.SHARED, False), (DeadLetterKind.INDIVIDUAL, True)):
        strategy = DeadLetterStrategy(kind=kind, max_producers_to_audit=1)
        audits = Audits(dict.fromkeys(("orders", "bills"), entry(strategy=strategy)))
        assert not audits.is_duplicate(lineage(7))
        assert not audits.is_duplicate(lineage(7)._replace(address="bills"))
        assert audits.is_duplicate(lineage(7)) is known


@given(st.lists(st.tuples(st.integers(0, 80), st.integers(0, 5000)), unique=True, max_size=200))
def test_what_was_not_seen_is_no_duplicate(places: list[tuple[int, int]]) -> None:
    """Whatever is forgotten on the way: no record is ever lost for another's sake."""
    audits = Audits({"orders": ENTRY})
    assert not any(audits.is_duplicate(lineage(offset, partition=partition)) for partition, offset in places)


def test_a_scheduler_drops_the_second_copy_of_what_it_cannot_release() -> None:
    """The same origin and due time; at another due time it was redriven meanwhile, and is kept."""
    audits = Audits(configured().entries())
    counts = {"billing.retry.2s": 4, "DLQ.orders": 2, "DLQ.invoices": 2}
    maker = Releaser(configured(), TierSet((1000, 2000), mixed=True), counts, audits)
    release = Release()
    for due_ms in (NOW, NOW, NOW + 1):
        maker.add(release, TIER, held(lineage(7), due_ms=due_ms), NOW, None)
    assert len(release.copies) == 2
    assert release.discarded == {("orders", "duplicate"): 1}
    audits.forget([noted for noted, _ in release.noted], f"/{NOW}")
    maker.add(release, TIER, held(lineage(7)), NOW, None)
    assert len(release.copies) == 3


class TestReport:
    """``reportInterval``."""

    def test_each_interval_is_one_line(self, caplog: pytest.LogCaptureFixture) -> None:
        """However many a write drops; each interval by itself."""
        report = DiscardReport()
        with caplog.at_level(logging.INFO):
            for number in (9, 1, 25, 0):
                report.add({10: number})
            report.add({100: 99})
        assert [message.split()[5] for message in caplog.messages] == ["10", "20", "30"]

    def test_only_what_the_plugin_drops_is_reported(self) -> None:
        """Not what a strategy does, nor a duplicate."""
        plugin = DeadLetterStrategy(kind=DeadLetterKind.DISCARDING, poison_report_interval=10)
        for strategy, dropped in ((plugin, {10: 1}), (DeadLetterStrategy(kind=DeadLetterKind.DISCARDING), {})):
            batch = Batch(common(entry(strategy=strategy)))
            of = source(route(entry(strategy=strategy)))
            batch.add(handled(of, record(0), failures={0: REJECTED}))
            assert dict(batch.dropped) == dropped
            assert batch.committed(0.0).discarded == {("orders", Reason.REJECTED): 1}
