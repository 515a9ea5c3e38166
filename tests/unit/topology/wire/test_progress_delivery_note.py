"""Delivery notes: records that may be in a handler, and how another process treats them."""

from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.wire.progress import Progress
from kafka_redelivery.topology.wire.progress_metadata import (
    FIXED_BYTES,
    WAITING_BYTES,
    DeliveryNote,
    WaitingRecord,
    decode,
    encode,
)

AHEAD = st.integers(0, 2**62)


def noted(author: int = 1, *, alone: int | None = None, deliveries: int = 0) -> Progress:
    """Return progress with offsets 10 to 19 tracked, and a note of those below 15 or of an isolated one."""
    progress = Progress(10, author=author)
    assert progress.track_range(10, 10)
    if alone is None:
        progress.note_end = 15
    else:
        progress.isolate(alone, deliveries)
    return progress


def found(progress: Progress, author: int | None) -> Progress:
    """Return the progress that the next owner restores."""
    point = progress.checkpoint()
    return Progress.restore(point.offset, point.metadata, author)


@given(author=st.integers(1, 2**32 - 1), ends=st.tuples(AHEAD, AHEAD), alone=st.none() | AHEAD, watermark=AHEAD)
def test_a_note_reads_back(author: int, ends: tuple[int, int], alone: int | None, watermark: int) -> None:
    """Every note fits into the reserved bytes."""
    end, suspect_end = (watermark + ahead if ahead else 0 for ahead in ends)
    note = DeliveryNote(author, end, suspect_end, None if alone is None else watermark + alone)
    waiting = {} if alone is None else {watermark + alone: WaitingRecord(3, 2**40)}
    text = encode(watermark, watermark, (), waiting, note)
    assert decode(watermark, text) == (watermark, set(), waiting, note)
    assert len(text) <= FIXED_BYTES + len(waiting) * WAITING_BYTES


def test_records_in_a_note_of_another_process_are_suspects() -> None:
    """All unfinished records of the note are suspects; their deliveries are not counted."""
    progress = found(noted(), 2)
    assert (progress.suspect_end, progress.fatal_offset, progress.waiting) == (15, None, {})


def test_records_in_the_own_note_are_no_suspects() -> None:
    """After an aborted transaction the process resumes from its own commit."""
    assert found(noted(), 1).suspect_end == 0


def test_a_process_without_notes_has_no_suspects() -> None:
    """It writes no note either."""
    progress = found(noted(), None)
    assert progress.suspect_end == 0
    assert progress.checkpoint().metadata == ""


def test_the_delivery_of_an_isolated_record_counts() -> None:
    """Its worker died, so its count increases by one, however often the note is read."""
    progress = found(noted(alone=12, deliveries=1), 2)
    assert (progress.fatal_offset, progress.waiting, progress.suspect_end) == (12, {12: WaitingRecord(2, 0)}, 13)
    again = found(noted(alone=12, deliveries=1), 3)
    assert again.waiting == progress.waiting
    assert found(progress, 4).waiting == {12: WaitingRecord(2, 0)}
    assert found(progress, 4).fatal_offset is None


def test_the_own_isolated_record_is_not_counted() -> None:
    """An aborted transaction is like a close before the commit."""
    assert found(noted(alone=12, deliveries=1), 1).waiting == {12: WaitingRecord(1, 0)}


def test_suspects_stay_suspects_until_they_are_finished() -> None:
    """Changes of the owner do not matter."""
    first = found(noted(), 2)
    assert first.track_range(10, 10)
    first.complete((10, 11))
    second = found(first, 3)
    assert (second.watermark, second.suspect_end) == (12, 15)
    assert found(second, 3).suspect_end == 15
    assert second.track_range(12, 8)
    second.complete(range(12, 15))
    assert second.checkpoint().metadata == ""


def test_the_commit_of_the_outcomes_withdraws_the_note() -> None:
    """The note is not written once all of its records are finished."""
    progress = noted(alone=10)
    progress.complete((10,))
    assert progress.checkpoint().metadata == ""
    progress = noted()
    progress.complete(range(10, 15))
    assert progress.checkpoint().metadata == ""


def test_withdrawing_a_note_requires_a_commit() -> None:
    """A commit is required only if there was a note."""
    assert noted().withdraw_note()
    assert noted(alone=12).withdraw_note()
    assert not Progress(10, author=1).withdraw_note()
    progress = noted()
    progress.withdraw_note()
    assert progress.checkpoint().metadata == ""


def test_metadata_is_reserved_for_records_that_may_wait() -> None:
    """A partition whose records may wait in place tracks fewer offsets."""
    progress, more = Progress(0), Progress(0, max_waiting=100)
    assert progress.can_track(20_000)
    assert not more.can_track(20_000)
