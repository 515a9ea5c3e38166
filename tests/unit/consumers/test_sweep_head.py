"""A partition is read as far as its records have expired, and only that is ever removed."""

from consumers.sweep_head import Head, Rest
from tests.unit.consumers.records import NOW, Fetched

GROUP = "billing"


def letter(
    offset: int, expires_ms: int = NOW - 1, *, group: bytes = b"billing", stamp_ms: int = NOW - 60_000
) -> Fetched:
    """A dead letter."""
    pairs: list[tuple[str, bytes | None]] = [("_AMQ_ORIG_QUEUE", group), ("_AMQ_ORIG_ADDRESS", b"orders")]
    if expires_ms:
        pairs.append(("JMSExpiration", b"%d" % expires_ms))
    return Fetched("DLQ.orders", 0, offset, None, b"value", pairs, stamp_ms)


def taken(head: Head, *letters: Fetched, now_ms: int = NOW) -> list[int]:
    """The offsets of those that are taken."""
    return [each.offset() for each in letters if head.take(each, now_ms) is not None]


def test_it_stops_at_the_first_that_has_not_expired() -> None:
    """What is behind it stays, though it has expired; the partition is read on when the head expires."""
    head = Head(GROUP, 5, 0)
    assert taken(head, letter(5), letter(6), letter(7, NOW + 3000), letter(8)) == [5, 6]
    assert (head.clear_to, head.expired, head.rest, head.wake_ms) == (7, 2, Rest.NOT_YET, NOW + 3000)


def test_it_looks_before_a_distant_expiration_and_still_tells_it() -> None:
    """Somebody may remove the head by hand meanwhile; whoever watches wants to know when it expires."""
    head = Head(GROUP, 5, 0)
    taken(head, letter(5, NOW + 3_600_000))
    assert head.wake_ms < NOW + 3_600_000
    assert head.expires_ms == NOW + 3_600_000


def test_markers_before_a_head_are_removed_with_what_expired() -> None:
    """Offsets have holes; what lies in them is nobody's record."""
    head = Head(GROUP, 5, 0)
    taken(head, letter(5), letter(9, 0))
    assert (head.clear_to, head.rest) == (9, Rest.NEVER)


def test_without_an_expired_record_nothing_is_removed() -> None:
    """Not even markers: a head that stays has no reason to lose anything before it."""
    head = Head(GROUP, 5, 0)
    taken(head, letter(9, NOW + 1))
    head.at_end(12)
    assert not head.removable
    assert head.clear_to == 5


def test_the_end_is_as_far_as_a_reader_of_committed_records_sees() -> None:
    """Then the partition is emptied altogether, and the next record is looked at."""
    head = Head(GROUP, 5, 0)
    taken(head, letter(5))
    head.at_end(7)
    assert head.clear_to == 7
    head.removed()
    assert (head.start, head.removable, head.rest) == (7, False, None)
    assert taken(head, letter(6), letter(7)) == [7]


def test_an_end_that_was_reached_before_more_came_is_not_the_end() -> None:
    """Only what was read may be removed."""
    head = Head(GROUP, 5, 0)
    taken(head, letter(5), letter(6))
    head.at_end(6)
    assert head.clear_to == 7


def test_another_groups_dead_letter_is_left_to_that_group() -> None:
    """It holds up ours; it is looked at again soon."""
    head = Head(GROUP, 0, 0)
    assert taken(head, letter(0), letter(1, group=b"invoicing"), letter(2)) == [0]
    assert (head.clear_to, head.rest) == (1, Rest.OTHERS)
    assert NOW < head.wake_ms <= NOW + 60_000


def test_what_is_read_again_after_a_rest_is_judged_again() -> None:
    """Nothing that was taken before counts."""
    head = Head(GROUP, 0, 0)
    taken(head, letter(0), letter(1, NOW + 10))
    head.removed()
    head.wake(1)
    assert taken(head, letter(1, NOW + 10), now_ms=NOW + 10) == [1]
    assert (head.start, head.clear_to, head.expired) == (1, 2, 1)


def test_a_refused_copy_stays_and_holds_up_what_is_behind_it() -> None:
    """Until the next wake, when it is tried again."""
    head = Head(GROUP, 0, 0)
    taken(head, letter(0), letter(1), letter(2))
    head.refuse(1, "too large")
    head.rewind(0)
    assert taken(head, letter(0), letter(1), letter(2)) == [0]
    assert (head.clear_to, head.rest) == (1, Rest.REFUSED)
    head.wake(1)
    assert taken(head, letter(1), letter(2)) == [1, 2]


def test_what_cannot_be_removed_is_tried_again_later() -> None:
    """Nothing is taken for removed meanwhile."""
    head = Head(GROUP, 3, 0)
    taken(head, letter(3), letter(4))
    head.give_up(NOW, "no right")
    assert (head.rest, head.removable, head.clear_to, head.start) == (Rest.REFUSED, False, 3, 3)
    assert taken(head, letter(5)) == []


def test_what_was_moved_before_is_not_moved_again() -> None:
    """The committed offset says how far that was; a committed offset before the first record says nothing."""
    head = Head(GROUP, 3, 5)
    assert head.moved_to == 5
    taken(head, letter(3), letter(4), letter(5))
    head.moved()
    assert head.moved_to == 6
    assert Head(GROUP, 3, 0).moved_to == 3


def test_a_worker_whose_clock_is_slow_is_seen_through() -> None:
    """The record before it was appended a minute later by its own time."""
    head = Head(GROUP, 0, 0)
    assert taken(head, letter(0, stamp_ms=NOW - 10), letter(1, NOW - 1, stamp_ms=NOW - 60_010)) == [0]
    assert (head.rest, head.wake_ms) == (Rest.NOT_YET, NOW - 1 + 60_000)


def test_a_time_that_is_still_to_come_proves_no_slow_clock() -> None:
    """Else one worker with a fast clock would keep everything."""
    head = Head(GROUP, 0, 0)
    assert taken(head, letter(0, stamp_ms=NOW + 3_600_000), letter(1)) == [0, 1]


def test_what_is_read_again_proves_no_slow_clock_of_what_stands_before_it() -> None:
    """A pile of days of which one copy was refused, or that could not be removed, is removed when it is tried again."""
    head = Head(GROUP, 0, 0)
    pile = [letter(0, stamp_ms=NOW - 200_000_000), letter(1, stamp_ms=NOW - 100_000_000), letter(2)]
    assert taken(head, *pile) == [0, 1, 2]
    head.rewind(0)
    assert taken(head, *pile) == [0, 1, 2]


def test_what_was_removed_still_proves_a_slow_clock() -> None:
    """It stood before the rest."""
    head = Head(GROUP, 0, 0)
    taken(head, letter(0, stamp_ms=NOW - 10))
    head.removed()
    head.rewind(1)
    assert taken(head, letter(1, NOW - 1, stamp_ms=NOW - 60_010)) == []
