"""Progress after an aborted write: what it would have committed is unfinished again, and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.topology.wire.progress_metadata import WaitingRecord


def unfinished(progress: Progress, offsets: list[int]) -> set[int]:
    """Which of these offsets the next owner of the partition handles if this progress is committed."""
    point = progress.checkpoint()
    after = Progress.restore(point.offset, point.metadata)
    return {offset for offset in offsets if offset >= point.offset and after.track(offset)}


@given(st.data())
def test_it_is_as_before_the_aborted_write(data: st.DataObject) -> None:
    """Offsets have holes and finish in any order. A part of the outcomes can then be committed without the others."""
    offsets = sorted(data.draw(st.sets(st.integers(0, 300), min_size=1, max_size=60)))
    subset = st.sets(st.sampled_from(offsets))
    committed, written, collected = data.draw(subset), data.draw(subset), data.draw(subset)
    written -= committed
    collected -= committed | written
    progress = Progress(0)
    for offset in offsets:
        progress.track(offset)
    progress.complete(committed)
    point = progress.checkpoint()
    left = set(offsets) - committed
    progress.complete(written)
    progress.complete(collected)
    for part in (written, collected):
        progress.reopen(part, {}, among_finished=point.metadata != "")
    assert unfinished(progress, offsets) == left

    again = data.draw(st.sets(st.sampled_from(sorted(written)))) if written else set()
    progress.complete(again)
    assert unfinished(progress, offsets) == left - again
    progress.complete(left)
    assert progress.checkpoint() == Checkpoint(offsets[-1] + 1, "")


def test_fetching_goes_on_behind_it() -> None:
    """The next record is tracked as if nothing had happened."""
    progress = Progress(0)
    assert progress.track_range(0, 10)
    progress.complete(range(3, 10))
    progress.complete(range(3))
    progress.reopen(range(3), {}, among_finished=True)
    assert progress.track_range(10, 2)
    assert unfinished(progress, list(range(12))) == {0, 1, 2, 10, 11}


def test_a_record_waits_in_place_again() -> None:
    """With the deliveries that were made before."""
    progress = Progress(0)
    progress.track(0)
    progress.wait_in_place(0, 2, 1000)
    waiting = {0: progress.waiting[0]}
    progress.complete([0])
    assert progress.waiting == {}
    progress.reopen([0], waiting, among_finished=True)
    assert progress.waiting == {0: WaitingRecord(2, 1000)}
    point = progress.checkpoint()
    assert Progress.restore(point.offset, point.metadata).waiting == progress.waiting
