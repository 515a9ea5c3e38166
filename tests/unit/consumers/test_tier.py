"""When a waiting record leaves its tier: never early, never later than the tier's delay, whatever the clocks say."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.tier import Held, Tier
from tests.unit.consumers.records import NOW, Fetched, lineage, waiting_headers
from topology.headers import SCHEDULED_DELIVERY
from topology.progress import Progress

DELAY = 1000


def tier(delay_ms: int = DELAY, *, ordered: bool = True, progress: Progress | None = None) -> Tier:
    """A partition of a tier, or of the mixed topic."""
    return Tier("billing.retry", delay_ms, Progress(0) if progress is None else progress, ordered=ordered)


def waiting(offset: int, appended_ms: int, due_ms: int) -> Fetched:
    """A record that waits."""
    headers = waiting_headers(lineage(), due_ms=due_ms)
    return Fetched("billing.retry", 0, offset, None, b"value", headers, appended_ms)


def only(one: Tier) -> Held:
    """The one record that a tier holds."""
    assert len(one) == 1
    leaves_ms = one.next_ms
    assert leaves_ms is not None
    assert one.take(leaves_ms - 1, 9) == []
    [held] = one.take(leaves_ms, 9)
    assert held.leaves_ms == leaves_ms
    return held


def offsets(taken: list[Held]) -> list[int]:
    """Which they are."""
    return [held.offset for held in taken]


class TestLeaveRule:
    """Append time plus the tier's delay, or due, if that is sooner."""

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
        ids=["its own tier", "a longer tier", "due already", "rounded up", "a lower tier", "a rung of the ladder"],
    )
    def test_from_append_and_due(self, ordered: bool, due_in_ms: int, leaves_in_ms: int, final: bool) -> None:  # noqa: FBT001 - columns of the table
        """And whether nothing remains then."""
        one = tier(ordered=ordered)
        one.add(waiting(0, NOW, NOW + due_in_ms), NOW)
        held = only(one)
        assert (held.leaves_ms, held.due_ms, held.final) == (NOW + leaves_in_ms, NOW + due_in_ms, final)
        assert one.clock_faults == 0

    @pytest.mark.parametrize("due", [None, b"soon", b"", b"-5", b"9" * 30])
    def test_without_a_readable_due_time_it_is_the_tiers_delay(self, due: bytes | None) -> None:
        """What else is known of it; it is released then, not moved."""
        one = tier()
        pairs = [pair for pair in waiting_headers(lineage()) if pair[0] != SCHEDULED_DELIVERY]
        one.add(Fetched("billing.retry", 0, 0, None, b"", [*pairs, (SCHEDULED_DELIVERY, due)], NOW), NOW)
        held = only(one)
        assert (held.leaves_ms, held.due_ms, held.final) == (NOW + DELAY, NOW + DELAY, True)

    def test_a_record_without_headers_does_not_block_the_tier(self) -> None:
        """Whoever wrote it there."""
        one = tier()
        one.add(Fetched("billing.retry", 0, 0, stamp_ms=NOW), NOW)
        assert only(one).leaves_ms == NOW + DELAY


class TestClockFault:
    @pytest.mark.parametrize("ordered", [True, False])
    def test_nobody_waits_longer_than_the_tiers_delay(self, ordered: bool) -> None:  # noqa: FBT001 - a column of the table
        """A record from the future is counted, and leaves the delay after it was seen."""
        one = tier(ordered=ordered)
        one.add(waiting(0, NOW + 3_600_000, NOW + 3_601_000), NOW)
        assert one.clock_faults == 1
        assert only(one).leaves_ms == NOW + DELAY

    def test_a_record_from_the_past_is_none(self) -> None:
        """The scheduler was away; it leaves at once."""
        one = tier()
        one.add(waiting(0, NOW - 3_600_000, NOW - 3_599_000), NOW)
        assert one.clock_faults == 0
        assert offsets(one.take(NOW, 9)) == [0]

    def test_a_far_due_time_alone_is_none(self) -> None:
        """On the ladder, records are due much later than the tier's delay."""
        one = tier()
        one.add(waiting(0, NOW, NOW + 86_400_000), NOW)
        assert one.clock_faults == 0

    def test_those_behind_it_wait_for_it_no_longer_than_that(self) -> None:
        """The head holds the others up, for at most the delay."""
        one = tier()
        one.add(waiting(0, NOW + 3_600_000, NOW + 3_601_000), NOW)
        one.add(waiting(1, NOW, NOW + DELAY), NOW)
        assert offsets(one.take(NOW + DELAY, 9)) == [0, 1]


class TestClockSetBack:
    """Our own clock jumps back while records wait by it."""

    @pytest.mark.parametrize("ordered", [True, False])
    def test_nobody_waits_for_it_to_catch_up(self, ordered: bool) -> None:  # noqa: FBT001 - a column of the table
        """No longer than the tier's delay from then on, each record counted; the order stays."""
        one = tier(ordered=ordered)
        for offset, due_in in enumerate([200, 600, 900]):
            one.add(waiting(offset, NOW + due_in - DELAY, NOW + due_in), NOW)
        one.clock_set_back(NOW - 500)
        assert one.clock_faults == 2
        assert offsets(one.take(NOW + 200, 9)) == [0]
        assert offsets(one.take(NOW + 500, 9)) == [1, 2]

    def test_what_it_does_not_hold_up_stays_as_it_was(self) -> None:
        """A small step changes nothing for records that leave soon."""
        one = tier()
        one.add(waiting(0, NOW - DELAY + 50, NOW + 50), NOW)
        one.clock_set_back(NOW - 900)
        assert (one.next_ms, one.clock_faults) == (NOW + 50, 0)


class TestRoom:
    def test_bytes_are_those_of_the_keys_and_values_held(self) -> None:
        """A tombstone has none, nor a record without a key."""
        one = tier()
        for offset, (key, value) in enumerate([(b"ab", b"12345"), (None, None), (b"c", b"123")]):
            headers = waiting_headers(lineage(), due_ms=NOW)
            one.add(Fetched("billing.retry", 0, offset, key, value, headers, NOW), NOW)
        assert one.bytes == 11
        one.take(NOW, 2)
        assert one.bytes == 4

    def test_only_the_mixed_topic_can_fill_the_commits_metadata(self) -> None:
        """A tier is done from its head on, so its offset says everything."""
        for ordered in (True, False):
            one = tier(ordered=ordered)
            for offset in range(0, 400_000, 2):
                one.progress.see(offset)
            one.progress.finish(range(0, 400_000, 4))
            one.progress.see(400_001)
            assert one.noteworthy(0) == (ordered or one.progress.fits(0))
            assert one.noteworthy(10**9) == ordered


class TestOrder:
    def test_a_tier_waits_for_its_head(self) -> None:
        """In a tier all stay equally long, so its order is the order of leaving."""
        one = tier()
        for offset, appended in enumerate([NOW, NOW + 5, NOW + 3]):
            one.add(waiting(offset, appended, appended + DELAY), NOW + 5)
        assert offsets(one.take(NOW + DELAY + 3, 9)) == [0]
        assert one.next_ms == NOW + DELAY + 5
        assert offsets(one.take(NOW + DELAY + 5, 9)) == [1, 2]
        assert one.next_ms is None

    def test_the_mixed_topic_is_left_by_due_time(self) -> None:
        """Ties in the order of their offsets."""
        one = tier(ordered=False)
        for offset, due_in in enumerate([900, 100, 500, 100, 999]):
            one.add(waiting(offset, NOW, NOW + due_in), NOW)
        assert one.next_ms == NOW + 100
        assert offsets(one.take(NOW + 500, 9)) == [1, 3, 2]
        assert offsets(one.take(NOW + DELAY, 9)) == [0, 4]

    @pytest.mark.parametrize("ordered", [True, False])
    def test_no_more_is_taken_than_is_wanted(self, ordered: bool) -> None:  # noqa: FBT001 - a column of the table
        """The rest is next."""
        one = tier(ordered=ordered)
        for offset in range(5):
            one.add(waiting(offset, NOW, NOW + DELAY), NOW)
        assert offsets(one.take(NOW + DELAY, 2)) == [0, 1]
        assert one.take(NOW + DELAY, 0) == []
        assert len(one) == 3
        assert offsets(one.take(NOW + DELAY, 9)) == [2, 3, 4]

    @pytest.mark.parametrize(("ordered", "oldest_ms"), [(True, NOW - 7), (False, NOW - 9)])
    def test_the_oldest_is_the_one_at_the_watermark(self, ordered: bool, oldest_ms: int) -> None:  # noqa: FBT001 - a column of the table
        """By its append time; in the mixed topic whichever waits longest."""
        one = tier(ordered=ordered)
        assert one.oldest_ms is None
        one.add(waiting(0, NOW - 7, NOW + 500), NOW)
        one.add(waiting(1, NOW - 9, NOW + 100), NOW)
        assert one.oldest_ms == oldest_ms


class TestProgress:
    def test_what_is_done_is_not_held_again(self) -> None:
        """After a restart the reader starts at the watermark; what was released above it comes by again."""
        before = Progress(0)
        for offset in range(4):
            before.see(offset)
        before.finish([1, 3])
        point = before.checkpoint()
        one = tier(ordered=False, progress=Progress.restore(point.offset, point.metadata))
        for offset in range(point.offset, 5):
            one.add(waiting(offset, NOW, NOW), NOW)
        assert offsets(one.take(NOW, 9)) == [0, 2, 4]

    def test_what_is_fetched_twice_is_held_once(self) -> None:
        """A pause makes the client fetch again what it had."""
        one = tier()
        for offset in (0, 1, 0, 1, 2):
            one.add(waiting(offset, NOW, NOW), NOW)
        assert len(one) == 3

    def test_holes_are_nothing(self) -> None:
        """Offsets that do not exist are not waited for."""
        one = tier()
        for offset in (3, 17):
            one.add(waiting(offset, NOW, NOW), NOW)
        one.progress.finish(offsets(one.take(NOW, 9)))
        assert one.progress.checkpoint().offset == 18


@dataclass(frozen=True)
class Arrival:
    """A record as a tier may get it: its clocks need not agree with ours."""

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
    most: int,
    asked: list[int],
) -> None:
    """Whatever the order of events, a record leaves after its time and before the end of everything."""
    one = tier(delay_ms, ordered=ordered)
    events: list[tuple[int, Arrival | None]] = [(at, None) for at in asked]
    events += [(arrival.seen_ms, arrival) for arrival in arrivals]
    by_offset: list[Arrival] = []
    gone: list[tuple[int, Held]] = []
    now = NOW
    for now, arrival in sorted(events, key=lambda event: event[0]):
        if arrival is None:
            gone += [(now, held) for held in one.take(now, most)]
        else:
            one.add(waiting(len(by_offset), arrival.appended_ms, arrival.due_ms), now)
            by_offset.append(arrival)
    while (leaves_ms := one.next_ms) is not None:
        now = max(now, leaves_ms)
        gone += [(now, held) for held in one.take(now, most)]

    assert sorted(held.offset for _, held in gone) == list(range(len(by_offset)))
    if ordered:
        assert [held.offset for _, held in gone] == list(range(len(by_offset)))
    faults = 0
    for at, held in gone:
        arrival = by_offset[held.offset]
        stays_until, latest = arrival.appended_ms + delay_ms, arrival.seen_ms + delay_ms
        fault = min(arrival.due_ms, stays_until) > latest + 1
        faults += fault
        assert held.leaves_ms <= latest + 1
        if fault:
            assert at >= latest
        elif held.final:
            assert at >= arrival.due_ms
        else:
            assert stays_until <= at
            assert held.due_ms > stays_until
    assert faults <= one.clock_faults
    if all(arrival.appended_ms <= arrival.seen_ms for arrival in arrivals):
        assert one.clock_faults == 0
