"""What handlers leave unacknowledged is neither committed nor lost, whatever happens to its partition."""

from __future__ import annotations

import logging
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumers.batch import Batch
from consumers.lanes import Lanes
from consumers.session import Sessions
from consumers.unacknowledged import LONG_S, Unacknowledged
from tests.unit.consumers.batches import RAISED, TIER, handled, output, shared
from tests.unit.consumers.doubles import Clock
from tests.unit.consumers.lives import DiedError, Life, world
from tests.unit.consumers.records import lineage, record, source
from topology.acknowledgement import AcknowledgementMode
from topology.decision import AckType
from topology.headers import read_lineage
from topology.progress import METADATA_LIMIT
from topology.settings import Ordering

MODES = (AcknowledgementMode.CLIENT, AcknowledgementMode.INDIVIDUAL)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time that is waited by."""
    clock = Clock()
    monkeypatch.setattr("consumers.unacknowledged.monotonic_s", clock)
    return clock


class Kept:
    """Records 0 to 2 of a partition: the first two left unacknowledged, the first with an output, the last done."""

    def __init__(self, timeout_s: float | None = None) -> None:
        self.assigned = source()
        self.sessions = Sessions()
        self.session = self.sessions.begin()
        self.lanes = Lanes(Ordering.PARTITION, 1)
        self.kept = Unacknowledged(self.sessions, self.lanes, lambda _, m: lineage(m.offset(), deliveries=0), timeout_s)
        self.unit = handled(self.assigned, *map(record, range(3)), outputs={0: [output(b"later")], 2: [output(b"now")]})
        for index, message in enumerate(self.unit.messages[:2]):
            delivered = self.session.begin(self.unit.lane, message)
            assert self.session.end(delivered) is None
            self.unit.unacknowledged.append((index, delivered))
        self.batch = Batch(shared())
        self.batch.add(self.unit)
        self.kept.keep(self.unit)


def test_it_is_not_finished() -> None:
    """Neither its offset nor its outputs are written with what is done beside it; it counts as held."""
    kept = Kept()
    assert [copy.value for copy in kept.batch.copies] == [b"now"]
    assert kept.batch.size == 1
    assert kept.batch.checkpoints()[kept.assigned.partition].offset == 0
    assert len(kept.kept) == kept.lanes.held(redelivered=False).records == 2
    outcomes = kept.batch.committed(0.0).outcomes
    assert {label.outcome: number for label, number in outcomes.items()} == {"acked": 1}


def test_acknowledged_it_is_written() -> None:
    """Its output, its offset, its outcome; and it is held no more."""
    kept = Kept()
    kept.session.acknowledge(kept.unit.unacknowledged[0][1])
    kept.kept.hear(kept.batch)
    assert [copy.value for copy in kept.batch.copies] == [b"now", b"later"]
    assert kept.batch.checkpoints()[kept.assigned.partition].offset == 3
    assert len(kept.kept) == kept.lanes.held(redelivered=False).records == 0
    [(label, number)] = kept.batch.committed(0.0).outcomes.items()
    assert (label.outcome, label.ack_type, number) == ("acked", AckType.STANDARD, 3)


def test_recovered_each_has_failed_once() -> None:
    """Two retry copies with one delivery more; the output is dropped."""
    kept = Kept()
    kept.session.recover()
    kept.kept.hear(kept.batch)
    copies = [copy for copy in kept.batch.copies if copy.topic == TIER]
    assert [read_lineage(copy.headers or ()).deliveries for copy in copies] == [1, 1]
    assert len(kept.batch.copies) == 3


def test_nobody_speaks_of_it_in_time(clock: Clock) -> None:
    """It has failed, from its time on and not before; a late word is not heard."""
    kept = Kept(timeout_s=5)
    clock.advance(4.9)
    kept.kept.hear(kept.batch)
    assert len(kept.kept) == 2
    clock.advance(0.2)
    kept.kept.hear(kept.batch)
    assert len(kept.kept) == 0
    kept.session.acknowledge(kept.unit.unacknowledged[0][1])
    kept.kept.hear(kept.batch)
    assert [copy.topic for copy in kept.batch.copies] == ["totals", TIER, TIER]


def test_a_word_that_comes_with_the_time_out_is_heard(clock: Clock) -> None:
    """Once: it is not redelivered as well."""
    kept = Kept(timeout_s=5)
    clock.advance(6)
    kept.sessions.drop(kept.unit.unacknowledged[1][1])  # as if somebody had spoken of it, and it is not heard yet
    kept.kept.hear(kept.batch)
    assert len(kept.kept) == 1


def test_it_is_told_when_nobody_acknowledges(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """Once a minute."""
    kept = Kept()
    with caplog.at_level(logging.WARNING):
        for seconds in (LONG_S - 1, 2, 2):
            clock.advance(seconds)
            kept.kept.hear(kept.batch)
    [message] = caplog.messages
    assert message.startswith("2 records are unacknowledged")


def test_a_partition_that_leaves_takes_it_along() -> None:
    """What is said of it afterwards is not heard, and the room is free."""
    kept = Kept()
    kept.kept.forget(kept.assigned)
    kept.session.acknowledge(kept.unit.unacknowledged[0][1])
    kept.kept.hear(kept.batch)
    assert len(kept.kept) == kept.lanes.held(redelivered=False).records == 0
    assert kept.batch.size == 1


def test_a_unit_that_nobody_waits_for_is_void() -> None:
    """What of it is kept already stays so."""
    kept = Kept()
    late = kept.session.begin(kept.unit.lane, record(7))
    assert kept.session.end(late) is None
    kept.unit.unacknowledged.append((3, late))
    kept.kept.void(kept.unit)
    assert late.over
    assert len(kept.kept) == 2


def test_what_failed_after_its_handler_returned_is_not_kept() -> None:
    """Its output could not be encoded: that is a failed delivery like any other."""
    kept = Kept()
    unit = handled(kept.assigned, record(3), failures={0: RAISED})
    delivered = kept.session.begin(unit.lane, record(3))
    assert kept.session.end(delivered) is None
    unit.unacknowledged.append((0, delivered))
    kept.batch.add(unit)
    kept.kept.keep(unit)
    assert delivered.over
    assert [copy.topic for copy in kept.batch.copies] == ["totals", TIER]


@pytest.mark.usefixtures("hasty")
@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(MODES),
    st.sampled_from(list(Ordering)),
    st.integers(1, 3),
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.1]),
)
def test_every_record_ends_once(
    mode: AcknowledgementMode, ordering: Ordering, slots: int, seed: int, undone: float
) -> None:
    """Acknowledged or redelivered, over deaths, rebalances and undone writes, and metadata stays within its limit."""
    numbers = [60, 40, 20]
    around = world(numbers, seed, mode=mode, ordering=ordering, slots=slots, noting=False, undone=undone)
    places = list(around.records)
    for dying_after in (5, 15, 10**9):
        life = Life(around)
        try:
            life.live(10, dying_after=dying_after)
            life.give(places[:1])
            life.take(places[:1])
            life.live(3000, dying_after=dying_after)
        except DiedError:
            continue
    assert around.done
    ended: Counter[object] = Counter(copy.value for copy in around.written if copy.topic == "totals")
    again = Counter(
        b"%d@%d" % (line.partition, line.offset)
        for line in (read_lineage(copy.headers or ()) for copy in around.written if copy.topic != "totals")
    )
    assert ended + again == Counter(b"%d@%d" % (p, o) for p, number in enumerate(numbers) for o in range(number))
    assert around.longest_metadata <= METADATA_LIMIT
    assert {point.metadata for point in around.commits.values()} == {""}
