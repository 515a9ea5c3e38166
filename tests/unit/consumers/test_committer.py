"""Writing batches: nothing is done before the broker says so, and each of its refusals has an answer."""

from typing import Any

import pytest

from consumers.committer import LINGER_S, Committer
from consumers.errors import HaltedError
from consumers.patience import GIVE_UP_S
from consumers.unit import Assigned
from tests.unit.consumers.batches import DEAD, OUT_OF_MEMORY, RAISED, REJECTED, TIER, handled, output, shared
from tests.unit.consumers.doubles import Clock, Noting, ScriptedWriter
from tests.unit.consumers.records import entry, lineage, ready, record, redelivery, route, source
from topology.acknowledgement import AcknowledgementMode, LazyAcknowledgement
from topology.decision import Failure, FailureKind
from topology.policy import DeadLetterKind, DeadLetterStrategy
from topology.progress import Checkpoint
from transport.errors import Refusal, WriteRefusedError, WriterFencedError, WriteUndoneError
from transport.protocols import Partition

ORDERS = Partition("orders", 0)
TOO_LARGE = "Broker: Message size too large"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time that the committer sees."""
    clock = Clock()
    monkeypatch.setattr("consumers.committer.monotonic_s", clock)
    monkeypatch.setattr("consumers.patience.monotonic_s", clock)
    return clock


class Set:
    """A committer with what is around it."""

    def __init__(self, *script: Exception, journal: bool = False, most: int = 100) -> None:
        self.shared = shared(journal=journal)
        self.writer = ScriptedWriter(list(script))
        self.observer = Noting()
        self.committer = Committer(self.shared, self.writer, self.observer, most)

    def write(self, *assigned: Assigned) -> list[Assigned] | None:
        """Write what there is; ``assigned`` have an uncommitted position."""
        self.committer.begin(assigned)
        return self.committer.settle(None)


def refused(*indexes: int) -> WriteRefusedError:
    """The broker refuses these copies of a write."""
    return WriteRefusedError([Refusal(index, TOO_LARGE) for index in indexes])


class TestConfirmed:
    def test_copies_and_offsets_go_together(self) -> None:
        """In one write; the next batch is empty."""
        parts, assigned = Set(), source()
        parts.committer.batch.add(handled(assigned, record(0), record(1), failures={1: RAISED}))
        assert parts.write() is None
        [(copies, checkpoints)] = parts.writer.confirmed
        assert [copy.topic for copy in copies] == [TIER]
        assert checkpoints == {ORDERS: Checkpoint(2, "")}
        assert parts.committer.batch.size == 0

    def test_the_observer_is_told_after_it_is_confirmed(self) -> None:
        """How long it took, and what was in it."""
        parts = Set()
        parts.committer.batch.add(handled(source(), record(0)))
        parts.writer.seconds = 0.5
        parts.write()
        [told] = parts.observer.commits
        assert told.seconds == 0.5
        assert sum(told.outcomes.values()) == 1

    def test_nothing_to_write_is_not_written(self) -> None:
        """No empty transaction."""
        parts = Set()
        assert parts.write() is None
        assert parts.writer.tried == []
        assert parts.observer.commits == []

    def test_a_first_position_is_committed_alone(self) -> None:
        """So that a source read for the first time keeps its start."""
        parts, assigned = Set(), source(next_offset=17)
        assigned.dirty = True
        parts.write(assigned)
        assert parts.writer.confirmed == [([], {ORDERS: Checkpoint(17, "")})]
        assert not assigned.dirty

    def test_the_journal_is_in_it(self) -> None:
        """In the same write."""
        parts = Set(journal=True)
        parts.committer.batch.add(handled(source(), record(0)))
        parts.write()
        [(copies, _)] = parts.writer.confirmed
        assert [copy.topic for copy in copies] == ["billing.journal"]


class TestRefused:
    def test_a_refused_retry_becomes_a_verdict(self) -> None:
        """The worker goes back; when the record comes again it is dead-lettered unheard."""
        parts, assigned = Set(refused(0)), source()
        parts.committer.batch.add(handled(assigned, record(0), record(1), failures={1: RAISED}))
        assert parts.write() == []
        assert parts.writer.confirmed == []
        assert parts.shared.verdicts == {(ORDERS, 1): Failure(FailureKind.UNDELIVERABLE, "WriteRefused", TOO_LARGE)}
        assert parts.observer.commits == []
        assert len(parts.observer.causes_undone) == 1

    def test_a_refused_output_fails_its_record(self) -> None:
        """As if the handler had raised; the others of the batch are not blamed."""
        parts = Set(refused(1, 2))
        units = {0: [output(b"fine")], 1: [output(b"big"), output(b"big, too")]}
        parts.committer.batch.add(handled(source(), record(0), record(1), outputs=units))
        assert parts.write() == []
        assert parts.shared.verdicts == {(ORDERS, 1): Failure(FailureKind.RAISED, "WriteRefused", TOO_LARGE)}

    def test_a_refused_dead_letter_halts_its_partition(self) -> None:
        """There is nowhere left to put the record, and it must not be lost."""
        parts, assigned, other = Set(refused(0)), source(), source(partition=1)
        parts.committer.batch.add(handled(assigned, record(0), failures={0: REJECTED}))
        parts.committer.batch.add(handled(other, record(0, partition=1), failures={0: REJECTED}))
        assert parts.write() == [assigned]
        [cause] = parts.observer.causes_halted
        assert "orders-0@0" in cause
        assert TOO_LARGE in cause

    def test_a_refused_journal_halts(self) -> None:
        """Going on without it would break the proof."""
        parts = Set(refused(0), journal=True)
        parts.committer.batch.add(handled(source(), record(0)))
        with pytest.raises(HaltedError, match=f"refuses the journal: {TOO_LARGE}"):
            parts.write()

    def test_a_record_is_followed_to_where_it_can_be_written(self) -> None:
        """Output, retry, dead letter: each refusal leads to the next, and the last halts."""
        parts, assigned = Set(refused(0), refused(0), refused(0)), source()
        parts.committer.batch.add(handled(assigned, record(0), outputs={0: [output(b"big")]}))
        assert parts.write() == []
        topics = []
        for expected in ([], [assigned]):
            failure = parts.shared.verdicts[ORDERS, 0]
            again = source()
            again.progress.see(0)
            parts.committer.batch.settle(again, record(0), lineage(0, partition=0, deliveries=0), failure)
            found = parts.write()
            topics.append(parts.writer.tried[-1][0][0].topic)
            assert [halted.partition for halted in found or ()] == [halted.partition for halted in expected]
        assert topics == [TIER, DEAD]

    def test_a_verdict_stands_until_its_record_is_done(self) -> None:
        """After going back, another partition's records may come first, and be written."""
        parts, assigned, other = Set(refused(0)), source(), source(partition=1)
        parts.committer.batch.add(handled(assigned, record(0), record(1), failures={1: RAISED}))
        parts.write()
        parts.committer.batch.add(handled(other, record(0, partition=1)))
        parts.write()
        assert (ORDERS, 1) in parts.shared.verdicts
        again = source()
        parts.committer.batch.add(handled(again, record(0)))
        parts.write()
        assert (ORDERS, 1) in parts.shared.verdicts
        parts.committer.batch.add(handled(again, record(1)))
        parts.write()
        assert parts.shared.verdicts == {}


class TestUndone:
    def test_the_worker_goes_back(self) -> None:
        """Nothing counts, nobody is blamed, nothing of it is written with the next batch."""
        parts = Set(WriteUndoneError("timed out"))
        parts.committer.batch.add(handled(source(), record(0), failures={0: RAISED}))
        assert parts.write() == []
        assert parts.observer.causes_undone == ["timed out"]
        assert parts.shared.verdicts == {}
        parts.committer.batch.add(handled(source(), record(0)))
        assert parts.write() is None
        assert parts.writer.confirmed == [([], {ORDERS: Checkpoint(1, "")})]

    def attempts(self, parts: Set, clock: Clock, number: int, every_s: float) -> None:
        """So many writes, at this interval."""
        for offset in range(number):
            parts.committer.batch.add(handled(source(next_offset=offset), record(offset)))
            parts.write()
            clock.advance(every_s)

    def test_they_are_given_up_after_a_while(self, clock: Clock) -> None:
        """A broker that undoes everything is not asked for ever."""
        parts = Set(*[WriteUndoneError(f"no {number}") for number in range(9)])
        self.attempts(parts, clock, 7, every_s=GIVE_UP_S / 6)
        with pytest.raises(HaltedError, match="every write of the last 60 s was undone, the last: no 7"):
            self.attempts(parts, clock, 1, every_s=0)

    def test_a_pause_between_them_begins_a_new_series(self, clock: Clock) -> None:
        """Nothing was tried meanwhile, so nothing is known of the time between."""
        parts = Set(*[WriteUndoneError("") for _ in range(4)])
        self.attempts(parts, clock, 4, every_s=GIVE_UP_S)

    def test_however_many_there_are(self, clock: Clock) -> None:
        """Each refused record of a batch can cost one, so their number says nothing."""
        parts = Set(*[refused(0) for _ in range(500)])
        for offset in range(500):
            parts.committer.batch.add(handled(source(), record(offset), failures={0: RAISED}))
            assert parts.write() == []
            clock.advance(GIVE_UP_S / 1000)

    def test_one_success_between_them_starts_the_count_anew(self, clock: Clock) -> None:
        """The broker does take something."""
        parts = Set()
        for _ in range(4):
            parts.writer.script = [WriteUndoneError("")] * 3
            self.attempts(parts, clock, 4, every_s=GIVE_UP_S / 4)
        assert len(parts.writer.confirmed) == 4

    def test_a_replaced_worker_stops(self) -> None:
        """It is not for the committer to decide."""
        parts = Set(WriterFencedError("replaced"))
        parts.committer.batch.add(handled(source(), record(0)))
        with pytest.raises(WriterFencedError):
            parts.write()


class TestHalt:
    def test_what_is_done_is_committed_before_it(self) -> None:
        """And nothing past the record; the message names it."""
        parts, assigned = Set(), source()
        failures = {1: OUT_OF_MEMORY}
        parts.committer.batch.add(handled(assigned, *map(record, range(4)), failures=failures, position=2))
        with pytest.raises(HaltedError, match="MemoryError: all of it; nothing is committed past orders-0@1"):
            parts.write()
        assert parts.writer.confirmed == [([], {ORDERS: Checkpoint(1, "")})]

    def test_a_write_that_is_undone_halts_nothing(self) -> None:
        """The record comes again, and decides again."""
        parts = Set(WriteUndoneError(""))
        parts.committer.batch.add(handled(source(), record(0), failures={0: OUT_OF_MEMORY}))
        assert parts.write() == []

    def test_a_redelivery_halts_where_it_lies(self) -> None:
        """At its offset in the ready topic."""
        parts = Set()
        message = redelivery(9, lineage(42, partition=5))
        parts.committer.batch.add(handled(ready(partition=5), message, failures={0: OUT_OF_MEMORY}))
        with pytest.raises(HaltedError, match=r"billing.ready.orders-5@9"):
            parts.write()


class TestRipe:
    def test_nothing_is_not(self, clock: Clock) -> None:
        """However long it waits."""
        parts = Set()
        assert not parts.committer.ripe(more_to_come=False)
        clock.advance(1)
        assert not parts.committer.ripe(more_to_come=True)

    def test_an_idle_worker_is_prompt(self) -> None:
        """Nothing more comes, so nothing is waited for."""
        parts = Set()
        parts.committer.batch.add(handled(source(), record(0)))
        assert parts.committer.ripe(more_to_come=False)

    def test_a_busy_one_waits_a_little(self, clock: Clock) -> None:
        """From the first outcome on, then anew for the next batch."""
        parts = Set()
        for _ in range(2):
            parts.committer.batch.add(handled(source(), record(0)))
            assert not parts.committer.ripe(more_to_come=True)
            clock.advance(LINGER_S / 2)
            assert not parts.committer.ripe(more_to_come=True)
            clock.advance(LINGER_S)
            assert parts.committer.ripe(more_to_come=True)
            parts.write()

    def test_what_comes_during_a_write_is_written_after_it(self, clock: Clock) -> None:
        """Together, and however much it is; after a rest as long as the write, so that small writes stay few."""
        parts = Set(most=2)
        parts.writer.slow, parts.writer.seconds = True, 0.03
        parts.committer.batch.add(handled(source(), record(0)))
        parts.committer.begin(())
        for n in (1, 2):
            parts.committer.batch.add(handled(source(partition=n), record(0, partition=n)))
            assert not parts.committer.ripe(more_to_come=False)
        assert parts.committer.full
        assert parts.committer.settle() is None
        assert parts.committer.writing

        parts.writer.slow = False
        assert parts.committer.settle() is None
        assert not parts.committer.writing
        assert parts.committer.ripe(more_to_come=True)  # full
        parts.write()
        assert [set(checkpoints) for _, checkpoints in parts.writer.confirmed] == [
            {ORDERS},
            {Partition("orders", 1), Partition("orders", 2)},
        ]
        parts.committer.batch.add(handled(source(), record(0)))
        assert not parts.committer.ripe(more_to_come=False)
        clock.advance(0.03)
        assert parts.committer.ripe(more_to_come=False)

    def test_a_halt_waits_for_nothing(self) -> None:
        """What stands behind the record must not be handed out meanwhile."""
        parts = Set()
        parts.committer.batch.add(handled(source(), record(0), failures={0: OUT_OF_MEMORY}))
        assert parts.committer.ripe(more_to_come=True)

    def test_a_full_batch_waits_for_nothing(self) -> None:
        """Fullness is in records, whatever became of them."""
        parts = Set(most=3)
        parts.committer.batch.add(handled(source(), record(0), record(1), failures={0: OUT_OF_MEMORY}))
        assert not parts.committer.full
        parts.committer.batch.add(handled(source(partition=1), record(0, partition=1)))
        assert parts.committer.full
        assert parts.committer.ripe(more_to_come=True)


def test_a_discarded_record_leaves_no_verdict_behind() -> None:
    """It has no copy, but it is done."""
    parts = Set()
    assigned = source(route(entry(strategy=DeadLetterStrategy(kind=DeadLetterKind.DISCARDING))))
    assigned.progress.see(0)
    failure = Failure(FailureKind.UNDELIVERABLE)
    parts.shared.verdicts[ORDERS, 0] = failure
    parts.committer.batch.settle(assigned, record(0), lineage(0, partition=0, deliveries=0), failure)
    parts.write()
    assert parts.shared.verdicts == {}


def test_discarding_a_batch_forgets_it() -> None:
    """After going back, none of it is written."""
    parts = Set()
    parts.committer.batch.add(handled(source(), record(0), failures={0: RAISED}))
    parts.committer.discard()
    parts.write()
    assert parts.writer.tried == []


def test_closing_releases_the_writer() -> None:
    """The committer owns it."""
    parts = Set()
    parts.committer.close()
    assert parts.writer.closed


class TestLazy:
    """Of 10 records at half: 5 are acknowledged together, or what there is after a second."""

    def lazy(self, timeout_ms: int = 1000) -> Set:
        """A committer in mode ``dups_ok``."""
        parts = Set()
        rule = LazyAcknowledgement(AcknowledgementMode.DUPS_OK, prefetch=10, timeout_ms=timeout_ms)
        parts.committer = Committer(parts.shared, parts.writer, parts.observer, 100, lazy=rule)
        return parts

    def test_successes_wait_for_their_share(self, clock: Clock) -> None:
        """And no longer than the time limit, which counts from the last write."""
        parts = self.lazy()
        assigned = source()
        parts.committer.batch.add(handled(assigned, *map(record, range(4))))
        clock.advance(0.9)
        assert not parts.committer.ripe(more_to_come=False)
        assert parts.committer.due_in_s(0.2) == pytest.approx(0.1)
        clock.advance(0.1)
        assert parts.committer.ripe(more_to_come=False)
        assert parts.committer.due_in_s(0.2) == 0
        parts.write()
        parts.committer.batch.add(handled(assigned, *map(record, range(4, 9))))
        assert parts.committer.ripe(more_to_come=True)

    def test_without_a_limit_they_wait_for_ever(self, clock: Clock) -> None:
        """Nobody has to look after them meanwhile."""
        parts = self.lazy(timeout_ms=0)
        parts.committer.batch.add(handled(source(), record(0)))
        clock.advance(10**6)
        assert not parts.committer.ripe(more_to_come=False)
        assert parts.committer.due_in_s(0.2) == 0.2

    @pytest.mark.parametrize("what", [{"failures": {0: RAISED}}, {"outputs": {0: [output(b"1")]}}])
    def test_whatever_else_is_to_be_written_does_not_wait(self, what: dict[str, Any]) -> None:
        """A retry copy must not come late, nor an output."""
        parts = self.lazy()
        parts.committer.batch.add(handled(source(), record(0), **what))
        assert parts.committer.due_in_s(0.2) == 0
        assert parts.committer.ripe(more_to_come=False)
