"""A sweep advances over expired records, and only those are removed."""

from kafka_redelivery.consumers.dead_letters.sweep_cursor import PauseReason, SweepCursor
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


def advanced(cursor: SweepCursor, *letters: Fetched, now_ms: int = NOW) -> list[int]:
    """The offsets that the cursor advances over."""
    return [each.offset() for each in letters if cursor.advance(each, now_ms) is not None]


def test_it_pauses_at_the_first_record_that_has_not_expired() -> None:
    """Expired records behind it stay. The sweep resumes when it expires."""
    cursor = SweepCursor(GROUP, 5, 0, 9)
    assert advanced(cursor, letter(5), letter(6), letter(7, NOW + 3000), letter(8)) == [5, 6]
    assert (cursor.delete_to, cursor.expired, cursor.pause_reason, cursor.resume_ms) == (
        7,
        2,
        PauseReason.NOT_YET,
        NOW + 3000,
    )


def test_it_resumes_before_a_distant_expiration() -> None:
    """Another program may remove the record meanwhile. The metrics have the expiration."""
    cursor = SweepCursor(GROUP, 5, 0, 9)
    advanced(cursor, letter(5, NOW + 3_600_000))
    assert cursor.resume_ms < NOW + 3_600_000
    assert cursor.expires_ms == NOW + 3_600_000


def test_markers_before_a_pause_are_removed_with_expired_records() -> None:
    """Offsets have gaps where transaction markers lie."""
    cursor = SweepCursor(GROUP, 5, 0, 9)
    advanced(cursor, letter(5), letter(9, 0))
    assert (cursor.delete_to, cursor.pause_reason) == (9, PauseReason.NEVER)


def test_without_an_expired_record_nothing_is_removed() -> None:
    """Not even transaction markers."""
    cursor = SweepCursor(GROUP, 5, 0, 9)
    advanced(cursor, letter(9, NOW + 1))
    cursor.reach_end(12)
    assert not cursor.expired
    assert cursor.delete_to == 5


def test_the_end_is_the_last_stable_offset() -> None:
    """Then the partition is emptied, and the next record is read."""
    cursor = SweepCursor(GROUP, 5, 0, 9)
    advanced(cursor, letter(5))
    cursor.reach_end(7)
    assert cursor.delete_to == 7
    cursor.mark_removed()
    assert (cursor.start, cursor.expired, cursor.pause_reason) == (7, 0, None)
    assert advanced(cursor, letter(6), letter(7)) == [7]


def test_an_outdated_end_changes_nothing() -> None:
    """Only records that were read may be removed."""
    cursor = SweepCursor(GROUP, 5, 0, 9)
    advanced(cursor, letter(5), letter(6))
    cursor.reach_end(6)
    assert cursor.delete_to == 7


def test_another_groups_dead_letter_stays() -> None:
    """It blocks the dead letters behind it, and is read again soon."""
    cursor = SweepCursor(GROUP, 0, 0, 9)
    assert advanced(cursor, letter(0), letter(1, group=b"invoicing"), letter(2)) == [0]
    assert (cursor.delete_to, cursor.pause_reason) == (1, PauseReason.OTHERS)
    assert NOW < cursor.resume_ms <= NOW + 60_000


def test_a_record_is_judged_again_after_a_pause() -> None:
    """Records that were removed before the pause do not count again."""
    cursor = SweepCursor(GROUP, 0, 0, 9)
    advanced(cursor, letter(0), letter(1, NOW + 10))
    cursor.mark_removed()
    cursor.resume(1)
    assert advanced(cursor, letter(1, NOW + 10), now_ms=NOW + 10) == [1]
    assert (cursor.start, cursor.delete_to, cursor.expired) == (1, 2, 1)


def test_a_record_that_cannot_be_moved_blocks_the_records_behind_it() -> None:
    """Until the sweep resumes and tries again."""
    cursor = SweepCursor(GROUP, 0, 0, 9)
    advanced(cursor, letter(0), letter(1), letter(2))
    cursor.refuse_move(1, "too large")
    cursor.rewind(0)
    assert advanced(cursor, letter(0), letter(1), letter(2)) == [0]
    assert (cursor.delete_to, cursor.pause_reason) == (1, PauseReason.REFUSED)
    cursor.resume(1)
    assert advanced(cursor, letter(1), letter(2)) == [1, 2]


def test_a_refused_removal_is_tried_again_later() -> None:
    """Meanwhile no record counts as removed."""
    cursor = SweepCursor(GROUP, 3, 0, 9)
    advanced(cursor, letter(3), letter(4))
    cursor.refuse_removal(NOW, "no right")
    assert (cursor.pause_reason, cursor.expired, cursor.delete_to, cursor.start) == (PauseReason.REFUSED, 0, 3, 3)
    assert advanced(cursor, letter(5)) == []


def test_a_moved_record_is_not_moved_again() -> None:
    """The committed offset tells how far records were moved, unless it lies before the first record."""
    cursor = SweepCursor(GROUP, 3, 5, 9)
    assert cursor.moved_to == 5
    advanced(cursor, letter(3), letter(4), letter(5))
    cursor.mark_moved()
    assert cursor.moved_to == 6
    assert SweepCursor(GROUP, 3, 0, 9).moved_to == 3


def test_a_slow_clock_of_a_worker_delays_the_expiration() -> None:
    """The record before it was appended a minute later by its own timestamp."""
    cursor = SweepCursor(GROUP, 0, 0, 9)
    assert advanced(cursor, letter(0, stamp_ms=NOW - 10), letter(1, NOW - 1, stamp_ms=NOW - 60_010)) == [0]
    assert (cursor.pause_reason, cursor.resume_ms) == (PauseReason.NOT_YET, NOW - 1 + 60_000)


def test_a_timestamp_in_the_future_proves_no_slow_clock() -> None:
    """Otherwise one worker with a fast clock would keep all dead letters."""
    cursor = SweepCursor(GROUP, 0, 0, 9)
    assert advanced(cursor, letter(0, stamp_ms=NOW + 3_600_000), letter(1)) == [0, 1]


def test_a_record_that_is_read_again_proves_no_slow_clock_before_it() -> None:
    """Dead letters of several days that could not be moved or removed are removed at the next attempt."""
    cursor = SweepCursor(GROUP, 0, 0, 9)
    letters = [letter(0, stamp_ms=NOW - 200_000_000), letter(1, stamp_ms=NOW - 100_000_000), letter(2)]
    assert advanced(cursor, *letters) == [0, 1, 2]
    cursor.rewind(0)
    assert advanced(cursor, *letters) == [0, 1, 2]


def test_a_removed_record_still_proves_a_slow_clock() -> None:
    """It was appended before the remaining records."""
    cursor = SweepCursor(GROUP, 0, 0, 9)
    advanced(cursor, letter(0, stamp_ms=NOW - 10))
    cursor.mark_removed()
    cursor.rewind(1)
    assert advanced(cursor, letter(1, NOW - 1, stamp_ms=NOW - 60_010)) == []
