"""Progress of a partition, and what is committed of it.

``test_progress_life.py`` tests the whole life of a partition, with crashes at any time.
"""

import base64
from collections.abc import Iterable
from string import printable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_redelivery.topology.errors import ProgressError
from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.topology.wire.progress_metadata import METADATA_LIMIT, WaitingRecord
from tests.examples import share

LONG_MAX = 2**63 - 1
WAITS = st.builds(WaitingRecord, deliveries=st.integers(0, 2**21 - 1), due_ms=st.integers(0, LONG_MAX))


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


class TestWatermark:
    """The committed offset, below which every record is finished."""

    def test_it_starts_where_reading_starts(self) -> None:
        """Without tracked offsets, the watermark is the start."""
        assert Progress(7).checkpoint() == Checkpoint(7, "")

    def test_it_does_not_pass_an_unfinished_record(self) -> None:
        """A tracked offset is not finished yet."""
        assert reader(7, [7, 8, 9]).watermark == 7
        assert reader(7, [7, 8, 9], finished=[8, 9]).watermark == 7

    def test_it_moves_to_the_lowest_unfinished_record(self) -> None:
        """Records may finish in any order."""
        progress = reader(7, [7, 8, 9], finished=[8])
        progress.complete([7])
        assert progress.watermark == 9

    def test_all_done_is_one_past_the_last_record(self) -> None:
        """The commit equals that of a plain consumer, without metadata."""
        assert reader(7, [7, 8, 9], finished=[9, 7, 8]).checkpoint() == Checkpoint(10, "")

    def test_it_passes_holes(self) -> None:
        """An offset that does not exist does not delay the watermark."""
        progress = reader(7, [10, 20, 30], finished=[10])
        assert progress.watermark == 20
        progress.complete([20, 30])
        assert progress.watermark == 31

    def test_outstanding_counts_unfinished_offsets(self) -> None:
        """Offsets above the watermark count, too."""
        progress = reader(7, [10, 20, 30], finished=[20])
        assert progress.outstanding == 2
        progress.complete([10, 30])
        assert progress.outstanding == 0

    def test_going_back_is_an_error(self) -> None:
        """An offset cannot be tracked twice: another component moved the consumer."""
        progress = reader(7, [10])
        for offset in (10, 9, 0):
            with pytest.raises(ProgressError, match=f"offset {offset} was fetched again after 10"):
                progress.track(offset)


class TestRestore:
    def test_records_finished_out_of_order_are_not_delivered_again(self) -> None:
        """Only the two unfinished records are delivered again."""
        progress = restart(reader(7, [7, 8, 9, 10], finished=[8, 10]).checkpoint())
        assert [progress.track(offset) for offset in (7, 8, 9, 10, 11)] == [True, False, True, False, True]

    def test_records_finished_after_the_commit_are_delivered_again(self) -> None:
        """A crash loses progress that was not committed."""
        before = reader(7, [7, 8])
        committed = before.checkpoint()
        before.complete([7, 8])
        after = restart(committed)
        assert after.track(7)
        assert after.track(8)

    def test_progress_survives_a_restart_that_reads_nothing(self) -> None:
        """A commit right after the restore is the same commit."""
        committed = reader(7, [7, 8, 9], finished=[8]).checkpoint()
        assert restart(committed).checkpoint() == committed

    def test_a_finished_record_that_was_compacted_away_is_forgotten(self) -> None:
        """It is dropped from the progress once the consumer has passed it."""
        progress = restart(reader(7, [7, 8, 9], finished=[8]).checkpoint())
        progress.track(7)
        progress.track(9)
        again = restart(progress.checkpoint())
        assert [again.track(offset) for offset in (7, 9)] == [True, True]
        progress.complete([7, 9])
        assert progress.checkpoint() == Checkpoint(10, "")

    @pytest.mark.parametrize("metadata", ["", None])
    def test_a_commit_of_a_plain_consumer_is_its_offset(self, metadata: str | None) -> None:
        """A group that starts to use this project continues at its committed offset."""
        progress = Progress.restore(7, metadata)
        assert (progress.watermark, progress.outstanding, progress.waiting) == (7, 0, {})


class TestWaitingInPlace:
    def test_count_and_due_time_survive(self) -> None:
        """A record that waits in place keeps its count and due time after a restart."""
        progress = reader(7, [7, 8])
        progress.wait_in_place(7, deliveries=2, due_ms=1_780_000_000_000)
        after = restart(progress.checkpoint())
        assert after.waiting == {7: WaitingRecord(2, 1_780_000_000_000)}
        assert after.track(7)

    def test_the_last_count_and_due_time_apply(self) -> None:
        """Waiting again replaces the earlier count and due time."""
        progress = reader(7, [7])
        progress.wait_in_place(7, deliveries=1, due_ms=5)
        progress.wait_in_place(7, deliveries=2, due_ms=0)
        assert restart(progress.checkpoint()).waiting == {7: WaitingRecord(2, 0)}

    def test_finished_is_no_longer_waiting(self) -> None:
        """This applies at the watermark and above it."""
        progress = reader(7, [7, 8, 9])
        for offset in (7, 8, 9):
            progress.wait_in_place(offset, deliveries=1, due_ms=5)
        progress.complete([8])
        assert progress.waiting.keys() == {7, 9}
        progress.complete([7])
        assert progress.waiting.keys() == {9}

    @pytest.mark.parametrize("seen", [6, 9], ids=["the next is finished", "the next is not"])
    def test_a_waiting_record_that_was_deleted_is_forgotten(self, seen: int) -> None:
        """Retention or compaction may delete it while it waits; later commits do not fail."""
        before = reader(5, [5, 6], finished=[6])
        before.wait_in_place(5, deliveries=1, due_ms=100)
        after = restart(before.checkpoint())
        after.track(seen)
        assert after.checkpoint() == Checkpoint(after.watermark, "")

    @given(st.dictionaries(st.integers(0, LONG_MAX - 10**6 - 1), WAITS, max_size=20), st.integers(0, 10**6))
    def test_every_record_comes_back_as_it_was(self, waiting: dict[int, WaitingRecord], start: int) -> None:
        """Any count, any due time, any distance between them."""
        waiting = {start + offset: record for offset, record in waiting.items()}
        progress = reader(start, sorted(waiting))
        for offset, record in waiting.items():
            progress.wait_in_place(offset, record.deliveries, record.due_ms)
        assert restart(progress.checkpoint()).waiting == waiting


class TestMetadataLimit:
    """Commit metadata has at most 4096 bytes, as long as ``can_track`` is respected."""

    def test_23900_offsets_fit_above_a_stuck_record(self) -> None:
        """In the worst pattern, every second one finished."""
        progress = reader(0, range(23_900), finished=range(1, 23_900, 2))
        assert progress.can_track()
        assert 3900 < len(progress.checkpoint().metadata) <= METADATA_LIMIT

    def test_can_track_is_false_before_the_limit_is_exceeded(self) -> None:
        """The partition takes no more records and can still commit."""
        progress = reader(0, [0])
        while progress.can_track(1):
            progress.track(progress.next_offset)
            if progress.next_offset % 2:
                progress.complete([progress.next_offset - 1])
        assert len(progress.checkpoint().metadata) <= METADATA_LIMIT

    def test_can_track_is_true_again_when_the_watermark_moves(self) -> None:
        """The stuck record finishes, and the state is gone."""
        progress = reader(0, range(30_000), finished=range(1, 30_000))
        assert not progress.can_track()
        progress.complete([0])
        assert progress.can_track(20_000)
        assert progress.checkpoint() == Checkpoint(30_000, "")

    def test_more_than_fits_is_an_error_and_not_a_wrong_commit(self) -> None:
        """The error is raised before the broker refuses the commit."""
        progress = reader(0, range(60_000), finished=range(1, 60_000, 2))
        with pytest.raises(ProgressError, match="above offset 0 needs 10023 bytes"):
            progress.checkpoint()

    def test_long_runs_take_almost_nothing(self) -> None:
        """One slow record with much done behind it is the usual case."""
        progress = reader(0, range(24_000), finished=range(1, 24_000))
        assert len(progress.checkpoint().metadata) < 20

    def test_140_records_can_wait_in_place(self) -> None:
        """With the largest count and the latest due time there are."""
        progress = reader(0, range(140))
        for offset in range(140):
            assert progress.can_track()
            progress.wait_in_place(offset, deliveries=2**21 - 1, due_ms=LONG_MAX)
        assert len(restart(progress.checkpoint()).waiting) == 140

    @settings(max_examples=share(40))
    @given(st.lists(st.tuples(st.integers(1, 9000), st.integers(1, 40), st.integers(2, 50)), max_size=6))
    def test_a_commit_is_possible_while_can_track_is_respected(self, stretches: list[tuple[int, int, int]]) -> None:
        """Dense and sparse stretches, every nth record unfinished: the progress fits into 4096 bytes.

        ``can_track`` gets the distance to the next offset, holes included.
        """
        progress, unfinished, seen = reader(0, [0]), [0], [0]
        for length, distance, nth in stretches:
            for index in range(length):
                if not progress.can_track(distance):
                    break
                offset = seen[-1] + distance
                progress.track(offset)
                seen.append(offset)
                if index % nth:
                    progress.complete([offset])
                else:
                    unfinished.append(offset)
        committed = progress.checkpoint()
        assert len(committed.metadata) <= METADATA_LIMIT
        after = restart(committed)
        assert [offset for offset in seen if after.track(offset)] == unfinished

    @given(st.lists(st.tuples(st.integers(1, 2000), WAITS), max_size=300))
    def test_a_commit_is_always_possible_with_waiting_records(self, waits: list[tuple[int, WaitingRecord]]) -> None:
        """Records that wait in place need metadata, too."""
        progress, waiting = Progress(0), {}
        for distance, record in waits:
            if not progress.can_track(distance):
                break
            offset = progress.next_offset + distance - 1
            progress.track(offset)
            progress.wait_in_place(offset, record.deliveries, record.due_ms)
            waiting[offset] = record
        committed = progress.checkpoint()
        assert len(committed.metadata) <= METADATA_LIMIT
        assert restart(committed).waiting == waiting

    def test_an_unexpected_hole_does_not_prevent_commits(self) -> None:
        """There was room for one more record; that its offset is far away is not the reader's fault."""
        progress = reader(0, range(23_900), finished=range(1, 23_900, 2))
        assert progress.can_track(1)
        progress.track(100_000)
        progress.complete([100_000])
        assert len(progress.checkpoint().metadata) <= METADATA_LIMIT

    @pytest.mark.parametrize("more", [97, 1000, 10_000])
    @pytest.mark.parametrize("stuck", [False, True])
    def test_a_partition_with_the_longest_text_is_read_on_after_a_restart(self, more: int, *, stuck: bool) -> None:
        """What is in the text already takes no room a second time, or nothing would ever be read again."""
        progress = Progress(0)
        while progress.can_track_offset(progress.next_offset):
            progress.track(progress.next_offset)
        end = progress.next_offset
        progress.complete(offset for offset in range(1, end) if offset % 3)
        committed = progress.checkpoint()
        assert len(committed.metadata) > METADATA_LIMIT * 0.97
        after = restart(committed)
        while after.next_offset <= end and after.can_track(more):
            fetched = range(after.next_offset, after.next_offset + more)
            after.complete([offset for offset in fetched if after.track(offset) and not (stuck and offset == 0)])
            assert len(after.checkpoint().metadata) <= METADATA_LIMIT
        assert after.next_offset > end - more
        assert stuck or after.next_offset > end  # a partition without unfinished records is never full


class TestForeignMetadata:
    """Damaged metadata and that of other tools is refused."""

    @staticmethod
    def genuine() -> list[Checkpoint]:
        """Commits of every kind: runs, a bitmap, records that wait."""
        waiting = reader(5, range(5, 40), finished=[6, 7, 8, 30])
        waiting.wait_in_place(5, deliveries=3, due_ms=1_780_000_000_000)
        waiting.wait_in_place(9, deliveries=1, due_ms=1_780_000_000_001)
        return [
            reader(5, range(5, 40), finished=[6, 7, 8, 30]).checkpoint(),
            reader(5, range(5, 900), finished=range(6, 900, 2)).checkpoint(),
            waiting.checkpoint(),
        ]

    @pytest.mark.parametrize(
        "metadata", ["{}", "p1", "p1:", "p2:AAA=", "P1:AAAA", " ", "null", "p1:AA==", "p1:AAA", "p1:\xe4"]
    )
    def test_text_of_others_is_refused(self, metadata: str) -> None:
        """The error contains the offset, the text and a possible cause."""
        with pytest.raises(
            ProgressError, match=r"offset 7 .* damaged or was not written by this project .* changed by another tool"
        ) as caught:
            Progress.restore(7, metadata)
        assert repr(metadata) in str(caught.value)

    @pytest.mark.parametrize("metadata", ["p6:AAAA", "p17:"])
    def test_the_format_of_a_newer_version_is_named(self, metadata: str) -> None:
        """The fix after a downgrade differs from that after a commit by another tool."""
        with pytest.raises(ProgressError, match=r"offset 7 is in the format p\d+ of a newer version: start that"):
            Progress.restore(7, metadata)

    def test_a_refusal_does_not_repeat_a_huge_text(self) -> None:
        """An error message stays short, whatever was committed."""
        with pytest.raises(ProgressError) as caught:
            Progress.restore(7, "x" * METADATA_LIMIT)
        assert len(str(caught.value)) < 250

    @given(st.text(min_size=1) | st.text(printable, min_size=1).map("p1:".__add__))
    def test_any_text_is_refused(self, metadata: str) -> None:
        """Nothing but the documented error, whatever the characters."""
        with pytest.raises(ProgressError):
            Progress.restore(7, metadata)

    # Of random bytes one in 65,536 has the right check sum: the same ones are tried each time.
    @settings(derandomize=True)
    @given(st.binary(max_size=60))
    def test_any_bytes_in_our_form_are_refused(self, packed: bytes) -> None:
        """What only looks like ours is found out by its check sum."""
        with pytest.raises(ProgressError):
            Progress.restore(7, "p1:" + base64.b64encode(packed).decode())

    @pytest.mark.parametrize("kind", [0, 1, 2], ids=["runs", "bitmap", "waiting"])
    def test_every_single_flipped_bit_is_found(self, kind: int) -> None:
        """It is refused, or it was one that base64 does not use: then nothing is changed."""
        genuine = self.genuine()[kind]
        for index, character in enumerate(genuine.metadata):
            for bit in range(7):
                flipped = chr(ord(character) ^ 1 << bit)
                damaged = genuine.metadata[:index] + flipped + genuine.metadata[index + 1 :]
                try:
                    progress = Progress.restore(genuine.offset, damaged)
                except ProgressError:
                    continue
                assert progress.checkpoint() == genuine

    @pytest.mark.parametrize("kind", [0, 1, 2], ids=["runs", "bitmap", "waiting"])
    def test_a_cut_off_text_is_refused(self, kind: int) -> None:
        """At whatever place it was cut."""
        genuine = self.genuine()[kind]
        for length in range(1, len(genuine.metadata)):
            with pytest.raises(ProgressError):
                Progress.restore(genuine.offset, genuine.metadata[:length])


def test_a_range_is_tracked_like_its_offsets() -> None:
    """A fetch without holes is tracked in one call."""
    at_once, one_by_one = Progress(5), Progress(5)
    assert at_once.track_range(5, 3)
    for offset in (5, 6, 7):
        one_by_one.track(offset)
    for progress in (at_once, one_by_one):
        progress.complete((6,))
    assert at_once == one_by_one
    assert at_once.checkpoint() == one_by_one.checkpoint()


@pytest.mark.parametrize("first", [4, 6])
def test_a_range_after_a_hole_or_tracked_before_is_not_tracked(first: int) -> None:
    """Its offsets must be tracked one by one."""
    progress = Progress(5)
    assert not progress.track_range(first, 3)
    assert progress == Progress(5)


def test_a_range_from_before_a_restore_is_not_tracked() -> None:
    """Some of its offsets may be finished."""
    before = Progress(5)
    assert before.track_range(5, 3)
    before.complete((6,))
    committed = before.checkpoint()
    after = Progress.restore(committed.offset, committed.metadata)
    assert not after.track_range(5, 3)
    assert [after.track(offset) for offset in (5, 6, 7)] == [True, False, True]
