"""What a commit says of records that may be in a handler, and what another process makes of it."""

from hypothesis import given
from hypothesis import strategies as st

from topology.progress import InPlace, Progress
from topology.progress_metadata import FIXED_BYTES, WAITING_BYTES, HandedOut, decode, encode

AHEAD = st.integers(0, 2**62)


def noted(author: int = 1, *, alone: int | None = None, deliveries: int = 0) -> Progress:
    """Offsets 10 to 19 are seen, those below 15 handed out, or one alone."""
    progress = Progress(10, author=author)
    assert progress.see_run(10, 10)
    if alone is None:
        progress.handed_end = 15
    else:
        progress.hand_out_alone(alone, deliveries)
    return progress


def found(progress: Progress, author: int | None) -> Progress:
    """The same as the next reader finds it."""
    point = progress.checkpoint()
    return Progress.restore(point.offset, point.metadata, author)


@given(author=st.integers(1, 2**32 - 1), ends=st.tuples(AHEAD, AHEAD), alone=st.none() | AHEAD, watermark=AHEAD)
def test_a_note_reads_back(author: int, ends: tuple[int, int], alone: int | None, watermark: int) -> None:
    """Whatever it says, it takes no more room than is kept for it."""
    end, suspect_end = (watermark + ahead if ahead else 0 for ahead in ends)
    note = HandedOut(author, end, suspect_end, None if alone is None else watermark + alone)
    waiting = {} if alone is None else {watermark + alone: InPlace(3, 2**40)}
    text = encode(watermark, watermark, (), waiting, note)
    assert decode(watermark, text) == (watermark, set(), waiting, note)
    assert len(text) <= FIXED_BYTES + len(waiting) * WAITING_BYTES


def test_what_another_one_handed_out_is_suspect() -> None:
    """All of it that is not finished, and nothing behind it; nobody is counted."""
    progress = found(noted(), 2)
    assert (progress.suspect_end, progress.died, progress.waiting) == (15, None, {})


def test_what_one_handed_out_itself_is_not_suspect() -> None:
    """A write was undone: the process goes on from what is committed, and lives."""
    assert found(noted(), 1).suspect_end == 0


def test_whoever_notes_nothing_suspects_nobody() -> None:
    """And writes no note: the next one finds none."""
    progress = found(noted(), None)
    assert progress.suspect_end == 0
    assert progress.checkpoint().metadata == ""


def test_one_that_was_alone_has_had_its_delivery() -> None:
    """Its worker is dead, so its count is one more; told twice it is still one more."""
    progress = found(noted(alone=12, deliveries=1), 2)
    assert (progress.died, progress.waiting, progress.suspect_end) == (12, {12: InPlace(2, 0)}, 13)
    again = found(noted(alone=12, deliveries=1), 3)
    assert again.waiting == progress.waiting
    assert found(progress, 4).waiting == {12: InPlace(2, 0)}
    assert found(progress, 4).died is None


def test_one_that_was_alone_is_not_counted_by_its_own_process() -> None:
    """Its outcome was undone: that is as if it had been closed before the commit."""
    assert found(noted(alone=12, deliveries=1), 1).waiting == {12: InPlace(1, 0)}


def test_suspects_stay_suspects_until_they_are_finished() -> None:
    """Whoever takes over in between, dead or alive."""
    first = found(noted(), 2)
    assert first.see_run(10, 10)
    first.finish((10, 11))
    second = found(first, 3)
    assert (second.watermark, second.suspect_end) == (12, 15)
    assert found(second, 3).suspect_end == 15
    assert second.see_run(12, 8)
    second.finish(range(12, 15))
    assert second.checkpoint().metadata == ""


def test_the_commit_of_the_outcomes_takes_the_note_back() -> None:
    """Nothing is left of it when all that it names is finished."""
    progress = noted(alone=10)
    progress.finish((10,))
    assert progress.checkpoint().metadata == ""
    progress = noted()
    progress.finish(range(10, 15))
    assert progress.checkpoint().metadata == ""


def test_a_note_taken_back_is_told_of() -> None:
    """Only where there was one has the position to be committed for it."""
    assert noted().take_note_back()
    assert noted(alone=12).take_note_back()
    assert not Progress(10, author=1).take_note_back()
    progress = noted()
    progress.take_note_back()
    assert progress.checkpoint().metadata == ""


def test_room_is_kept_for_what_may_come_to_wait() -> None:
    """A partition whose records may wait in place takes fewer of them."""
    progress, more = Progress(0), Progress(0, most_waiting=100)
    assert progress.fits(20_000)
    assert not more.fits(20_000)
