"""Progress past offsets that hold no record: transaction markers, aborted, compacted and deleted records."""

from collections.abc import Iterable

from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.topology.wire.progress_metadata import WaitingRecord


def reader(start: int, seen: Iterable[int], finished: Iterable[int] = ()) -> Progress:
    """Return the progress of a partition fetched from ``start``, with tracked and finished offsets."""
    progress = Progress(start)
    for offset in seen:
        assert progress.track(offset)
    progress.complete(finished)
    return progress


def restart(checkpoint: Checkpoint) -> Progress:
    """Return the progress that the next owner of the partition restores."""
    return Progress.restore(checkpoint.offset, checkpoint.metadata)


class TestReachedEnd:
    """Offsets at the end of a partition that hold no record."""

    def test_the_watermark_of_an_idle_partition_passes_them(self) -> None:
        """The commit equals that of a plain consumer, without metadata."""
        progress = reader(7, [7, 8], finished=[7, 8])
        assert progress.reach_end(10)
        assert progress.checkpoint() == Checkpoint(10, "")
        assert not progress.reach_end(10)
        assert not progress.reach_end(9)
        assert progress.track(10)

    def test_they_are_passed_once_the_records_before_them_are_finished(self) -> None:
        """The same commit that finishes the last record passes the marker behind it."""
        progress = reader(7, [7, 8], finished=[8])
        assert not progress.reach_end(10)
        assert progress.watermark == 7
        assert restart(progress.checkpoint()).checkpoint().offset == 7
        progress.complete([7])
        assert progress.checkpoint() == Checkpoint(10, "")

    def test_a_long_aborted_transaction_needs_no_metadata(self) -> None:
        """However many records it had, behind one that is not finished."""
        progress = reader(0, [0])
        progress.reach_end(10_000_000)
        assert progress.can_track(100)
        progress.track(10_000_000)
        progress.complete([10_000_000])
        assert len(progress.checkpoint().metadata) < 100
        assert restart(progress.checkpoint()).track(0)

    def test_a_record_that_vanished_no_longer_waits(self) -> None:
        """It was compacted or deleted while it waited in place."""
        before = reader(0, [0, 1], finished=[1])
        before.wait_in_place(0, 1, 5)
        after = restart(before.checkpoint())
        assert after.reach_end(4)
        assert after.checkpoint() == Checkpoint(4, "")
        assert after.waiting == {}


class TestStartAt:
    """The first records were deleted."""

    def test_what_is_finished_or_waits_behind_the_log_start_stays_so(self) -> None:
        """Nothing is repeated."""
        before = reader(0, range(10), finished=[0, 3, 6, 7])
        before.wait_in_place(8, 2, 77)
        after = restart(restart(before.checkpoint()).start_at(5))
        assert after.watermark == 5
        assert [offset for offset in range(5, 11) if after.track(offset)] == [5, 8, 9, 10]
        assert after.waiting == {8: WaitingRecord(2, 77)}

    def test_beyond_all_progress_nothing_is_left(self) -> None:
        """The commit equals that of a plain consumer, without metadata."""
        before = reader(0, range(10), finished=[3, 6, 7])
        assert restart(before.checkpoint()).start_at(50) == Checkpoint(50, "")
