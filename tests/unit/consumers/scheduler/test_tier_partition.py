"""A waiting record never leaves its tier early, and never later than after the tier's delay, for any clocks."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.consumers.flow.lane import sizes_of
from kafka_redelivery.consumers.scheduler.tier_partition import TierPartition, TierRecord
from kafka_redelivery.topology.wire.headers import SCHEDULED_DELIVERY
from kafka_redelivery.topology.wire.progress import Progress
from kafka_redelivery.transport.clients.message_headers import HEADER_OVERHEAD_BYTES
from tests.unit.consumers.records import NOW, Fetched, lineage, waiting_headers

DELAY = 1000


def tier(delay_ms: int = DELAY, *, ordered: bool = True, progress: Progress | None = None) -> TierPartition:
    """A partition of a tier, or of the mixed topic."""
    return TierPartition("billing.retry", delay_ms, Progress(0) if progress is None else progress, ordered=ordered)


def waiting(offset: int, appended_ms: int, due_ms: int) -> Fetched:
    """A record that waits."""
    headers = waiting_headers(lineage(), due_ms=due_ms)
    return Fetched("billing.retry", 0, offset, None, b"value", headers, appended_ms)


def add(one: TierPartition, message: Fetched, now_ms: int) -> bool:
    """Add a record with its size; return whether it need not be fetched again."""
    again = one.add([message], sizes_of([message]), now_ms)
    assert again in {None, message.offset()}
    return again is None


def only(one: TierPartition) -> TierRecord:
    """The one record in the buffer."""
    assert len(one) == 1
    leaves_ms = one.next_ms
    assert leaves_ms is not None
    assert one.take(leaves_ms - 1, 9) == []
    [record] = one.take(leaves_ms, 9)
    assert record.leaves_ms == leaves_ms
    return record


def offsets(taken: list[TierRecord]) -> list[int]:
    """The offsets of these records."""
    return [record.offset for record in taken]


class TestLeaveRule:
    """A record leaves when it is due, or after the tier's delay, whichever is first."""

    @pytest.mark.parametrize("ordered", [True, False])
    @pytest.mark.parametrize(
        ("due_in_ms", "leaves_in_ms", "final"),
        [
            (DELAY, DELAY, True),
            (DELAY - 400, DELAY - 400, True),
            (-5, -5, True),
            (DELAY + 1, DELAY + 1, True),
            (DELAY + 2, DELAY, False),
            (99 * DELAY, DELAY, False),
        ],
        ids=["its own tier", "a longer tier", "due already", "rounded up", "a shorter tier", "a tier of the ladder"],
    )
    def test_from_append_and_due(self, ordered: bool, due_in_ms: int, leaves_in_ms: int, final: bool) -> None:  # noqa: FBT001 - columns of the table
        """A record is final if it is due when it leaves."""
        one = tier(ordered=ordered)
        add(one, waiting(0, NOW, NOW + due_in_ms), NOW)
        record = only(one)
        assert (record.leaves_ms, record.due_ms, record.final) == (NOW + leaves_in_ms, NOW + due_in_ms, final)
        assert one.clock_faults == 0

    @pytest.mark.parametrize("due", [None, b"soon", b"", b"-5", b"9" * 30])
    def test_without_a_readable_due_time_the_tiers_delay_counts(self, due: bytes | None) -> None:
        """Then the record is released, not moved."""
        one = tier()
        pairs = [pair for pair in waiting_headers(lineage()) if pair[0] != SCHEDULED_DELIVERY]
        add(one, Fetched("billing.retry", 0, 0, None, b"", [*pairs, (SCHEDULED_DELIVERY, due)], NOW), NOW)
        record = only(one)
        assert (record.leaves_ms, record.due_ms, record.final) == (NOW + DELAY, NOW + DELAY, True)

    def test_a_record_without_headers_does_not_block_the_tier(self) -> None:
        """Another program may have written it."""
        one = tier()
        add(one, Fetched("billing.retry", 0, 0, stamp_ms=NOW), NOW)
        assert only(one).leaves_ms == NOW + DELAY


class TestClockFault:
    @pytest.mark.parametrize("ordered", [True, False])
    def test_no_record_waits_longer_than_the_tiers_delay(self, ordered: bool) -> None:  # noqa: FBT001 - a column of the table
        """A record from the future is counted, and leaves one delay after it was read."""
        one = tier(ordered=ordered)
        add(one, waiting(0, NOW + 3_600_000, NOW + 3_601_000), NOW)
        assert one.clock_faults == 1
        assert only(one).leaves_ms == NOW + DELAY

    def test_a_record_from_the_past_is_no_fault(self) -> None:
        """The scheduler was down; the record leaves immediately."""
        one = tier()
        add(one, waiting(0, NOW - 3_600_000, NOW - 3_599_000), NOW)
        assert one.clock_faults == 0
        assert offsets(one.take(NOW, 9)) == [0]

    def test_a_distant_due_time_is_no_fault(self) -> None:
        """A record may be due much later than the delay of its tier."""
        one = tier()
        add(one, waiting(0, NOW, NOW + 86_400_000), NOW)
        assert one.clock_faults == 0

    def test_the_records_behind_it_wait_for_one_delay_at_max_records(self) -> None:
        """The first record of an ordered tier blocks the others."""
        one = tier()
        add(one, waiting(0, NOW + 3_600_000, NOW + 3_601_000), NOW)
        add(one, waiting(1, NOW, NOW + DELAY), NOW)
        assert offsets(one.take(NOW + DELAY, 9)) == [0, 1]


class TestClockSetBack:
    """The scheduler's clock is set back while records wait."""

    @pytest.mark.parametrize("ordered", [True, False])
    def test_no_record_waits_until_the_clock_catches_up(self, ordered: bool) -> None:  # noqa: FBT001 - a column of the table
        """Each record leaves within the tier's delay, in order, and is counted as a clock fault."""
        one = tier(ordered=ordered)
        for offset, due_in in enumerate([200, 600, 900]):
            add(one, waiting(offset, NOW + due_in - DELAY, NOW + due_in), NOW)
        one.clock_set_back(NOW - 500)
        assert one.clock_faults == 2
        assert offsets(one.take(NOW + 200, 9)) == [0]
        assert offsets(one.take(NOW + 500, 9)) == [1, 2]

    def test_a_record_that_leaves_soon_is_unchanged(self) -> None:
        """A small step delays no such record."""
        one = tier()
        add(one, waiting(0, NOW - DELAY + 50, NOW + 50), NOW)
        one.clock_set_back(NOW - 900)
        assert (one.next_ms, one.clock_faults) == (NOW + 50, 0)


class TestBuffer:
    def test_bytes_are_those_of_the_buffered_keys_values_and_headers(self) -> None:
        """A tombstone has no value, and a record may have no key."""
        one = tier()
        headers = waiting_headers(lineage(), due_ms=NOW)
        for offset, (key, value) in enumerate([(b"ab", b"12345"), (None, None), (b"c", b"123")]):
            add(one, Fetched("billing.retry", 0, offset, key, value, headers, NOW), NOW)
        header_bytes = sum(len(name) + len(text or b"") + HEADER_OVERHEAD_BYTES for name, text in headers)
        assert one.bytes == 11 + 3 * header_bytes
        one.take(NOW, 2)
        assert one.bytes == 4 + header_bytes

    def test_only_the_mixed_topic_can_fill_the_commit_metadata(self) -> None:
        """A tier is finished in order, so its offset is enough."""
        for ordered in (True, False):
            one = tier(ordered=ordered)
            for offset in range(0, 400_000, 2):
                one.progress.track(offset)
            one.progress.complete(range(0, 400_000, 4))
            one.progress.track(400_001)
            assert one.has_metadata_space(0) == (ordered or one.progress.can_track(0))
            assert one.has_metadata_space(10**9) == ordered


class TestOrder:
    def test_a_tier_waits_for_its_first_record(self) -> None:
        """All records stay for the same time, so they leave in order."""
        one = tier()
        for offset, appended in enumerate([NOW, NOW + 5, NOW + 3]):
            add(one, waiting(offset, appended, appended + DELAY), NOW + 5)
        assert offsets(one.take(NOW + DELAY + 3, 9)) == [0]
        assert one.next_ms == NOW + DELAY + 5
        assert offsets(one.take(NOW + DELAY + 5, 9)) == [1, 2]
        assert one.next_ms is None

    def test_records_leave_the_mixed_topic_by_due_time(self) -> None:
        """Records with one due time leave in the order of their offsets."""
        one = tier(ordered=False)
        for offset, due_in in enumerate([900, 100, 500, 100, 999]):
            add(one, waiting(offset, NOW, NOW + due_in), NOW)
        assert one.next_ms == NOW + 100
        assert offsets(one.take(NOW + 500, 9)) == [1, 3, 2]
        assert offsets(one.take(NOW + DELAY, 9)) == [0, 4]

    @pytest.mark.parametrize("ordered", [True, False])
    def test_take_returns_no_more_than_the_maximum(self, ordered: bool) -> None:  # noqa: FBT001 - a column of the table
        """The remaining records come next."""
        one = tier(ordered=ordered)
        for offset in range(5):
            add(one, waiting(offset, NOW, NOW + DELAY), NOW)
        assert offsets(one.take(NOW + DELAY, 2)) == [0, 1]
        assert one.take(NOW + DELAY, 0) == []
        assert len(one) == 3
        assert offsets(one.take(NOW + DELAY, 9)) == [2, 3, 4]

    @pytest.mark.parametrize("ordered", [True, False])
    def test_take_returns_no_more_bytes_than_the_maximum(self, ordered: bool) -> None:  # noqa: FBT001 - a column of the table
        """Except for a part of the last record, so that a record of any size leaves."""
        one = tier(ordered=ordered)
        for offset in range(5):
            one.add([waiting(offset, NOW, NOW + DELAY)], [100], NOW)
        assert offsets(one.take(NOW + DELAY, 9, 101)) == [0, 1]
        assert one.bytes == 300
        assert offsets(one.take(NOW + DELAY, 9, 1)) == [2]
        assert offsets(one.take(NOW + DELAY, 9, 200)) == [3, 4]
        assert one.bytes == 0

    @pytest.mark.parametrize(("ordered", "oldest_ms"), [(True, NOW - 7), (False, NOW - 9)])
    def test_the_oldest_record(self, ordered: bool, oldest_ms: int) -> None:  # noqa: FBT001 - a column of the table
        """By append time. In an ordered tier it is the first record."""
        one = tier(ordered=ordered)
        assert one.oldest_ms is None
        add(one, waiting(0, NOW - 7, NOW + 500), NOW)
        add(one, waiting(1, NOW - 9, NOW + 100), NOW)
        assert one.oldest_ms == oldest_ms

    @pytest.mark.parametrize("ordered", [True, False])
    def test_when_the_last_record_leaves(self, ordered: bool) -> None:  # noqa: FBT001 - a column of the table
        """A heap has it at no fixed place."""
        one = tier(ordered=ordered)
        assert one.last_ms is None
        for offset, due_ms in enumerate([NOW + 100, NOW + 300, NOW + 500] if ordered else [NOW + 300, NOW + 500, NOW]):
            add(one, waiting(offset, NOW, due_ms), NOW)
        assert one.last_ms == NOW + 500


class TestProgress:
    def test_finished_records_are_not_buffered_again(self) -> None:
        """After a restart the reader starts at the watermark, below records that were released out of order."""
        before = Progress(0)
        for offset in range(4):
            before.track(offset)
        before.complete([1, 3])
        point = before.checkpoint()
        one = tier(ordered=False, progress=Progress.restore(point.offset, point.metadata))
        for offset in range(point.offset, 5):
            add(one, waiting(offset, NOW, NOW), NOW)
        assert offsets(one.take(NOW, 9)) == [0, 2, 4]

    def test_a_record_that_is_fetched_twice_is_buffered_once(self) -> None:
        """After a pause the client fetches records again."""
        one = tier()
        for offset in (0, 1, 0, 1, 2):
            add(one, waiting(offset, NOW, NOW), NOW)
        assert len(one) == 3

    def test_gaps_between_offsets_are_skipped(self) -> None:
        """Offsets that do not exist are not waited for."""
        one = tier()
        for offset in (3, 17):
            add(one, waiting(offset, NOW, NOW), NOW)
        one.progress.complete(offsets(one.take(NOW, 9)))
        assert one.progress.checkpoint().offset == 18


@dataclass(frozen=True)
class Arrival:
    """A record with times of a clock that may differ from the scheduler's."""

    seen_ms: int
    appended_ms: int
    due_ms: int


CLOCK = st.integers(NOW, NOW + 5000)
ARRIVALS = st.lists(
    st.builds(Arrival, CLOCK, st.integers(NOW - 5000, NOW + 10_000), st.integers(NOW - 5000, NOW + 20_000)),
    max_size=12,
).map(lambda found: sorted(found, key=lambda arrival: arrival.seen_ms))


@given(ARRIVALS, st.booleans(), st.integers(1, 3000), st.integers(1, 5), st.lists(CLOCK, max_size=8))
def test_never_early_and_never_stuck(
    arrivals: list[Arrival],
    ordered: bool,  # noqa: FBT001 - drawn
    delay_ms: int,
    max_records: int,
    asked: list[int],
) -> None:
    """In any order of events, every record leaves, and none before its time."""
    one = tier(delay_ms, ordered=ordered)
    events: list[tuple[int, Arrival | None]] = [(at, None) for at in asked]
    events += [(arrival.seen_ms, arrival) for arrival in arrivals]
    by_offset: list[Arrival] = []
    gone: list[tuple[int, TierRecord]] = []
    now = NOW
    for now, arrival in sorted(events, key=lambda event: event[0]):
        if arrival is None:
            gone += [(now, record) for record in one.take(now, max_records)]
        else:
            add(one, waiting(len(by_offset), arrival.appended_ms, arrival.due_ms), now)
            by_offset.append(arrival)
    while (leaves_ms := one.next_ms) is not None:
        now = max(now, leaves_ms)
        gone += [(now, record) for record in one.take(now, max_records)]

    assert sorted(record.offset for _, record in gone) == list(range(len(by_offset)))
    if ordered:
        assert [record.offset for _, record in gone] == list(range(len(by_offset)))
    faults = 0
    for at, record in gone:
        arrival = by_offset[record.offset]
        stays_until, latest = arrival.appended_ms + delay_ms, arrival.seen_ms + delay_ms
        fault = min(arrival.due_ms, stays_until) > latest + 1
        faults += fault
        assert record.leaves_ms <= latest + 1
        if fault:
            assert at >= latest
        elif record.final:
            assert at >= arrival.due_ms
        else:
            assert stays_until <= at
            assert record.due_ms > stays_until
    assert faults <= one.clock_faults
    if all(arrival.appended_ms <= arrival.seen_ms for arrival in arrivals):
        assert one.clock_faults == 0
