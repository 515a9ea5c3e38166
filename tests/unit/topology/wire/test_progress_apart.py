"""Offsets that are finished apart: before those in front of them, in a partition whose others finish in order."""

from random import Random

import pytest

from kafka_redelivery.topology.wire.progress import MAX_APART, Checkpoint, Progress
from kafka_redelivery.topology.wire.progress_metadata import METADATA_LIMIT, decode

OFFSET_BYTES = 12
"""By how much the number of the committed offset in the metadata may grow."""


def tracked(*offsets: int, start: int = 0) -> Progress:
    """The progress of a partition of which these records were fetched."""
    progress = Progress(start, bound=True)
    progress.in_order()
    for offset in offsets:
        assert progress.track(offset)
    return progress


def restart(checkpoint: Checkpoint) -> Progress:
    """The progress that the next owner of the partition restores."""
    progress = Progress.restore(checkpoint.offset, checkpoint.metadata)
    progress.bound = True
    progress.in_order()
    return progress


def read(progress: Progress, offsets: list[int]) -> list[int]:
    """Fetch these records, and return those that are to be released."""
    return [each for each in offsets if not progress.skip_apart(each) and progress.track(each)]


def test_what_is_finished_apart_is_not_released_again() -> None:
    """Whether its record was fetched or not."""
    progress = tracked(0, 1, 2, 5)
    progress.complete_apart([1, 5, 9])
    after = restart(progress.checkpoint())
    assert after.watermark == 0
    assert read(after, [0, 1, 2, 5, 6, 9, 10]) == [0, 2, 6, 10]
    assert read(progress, [6, 9, 10]) == [6, 10]
    progress.complete([0, 2, 6])
    assert progress.checkpoint() == Checkpoint(10, "")
    assert progress.apart == set()


def test_the_first_records_leave_nothing_to_note() -> None:
    """The watermark passes them."""
    progress = tracked(3, 4, 6, start=3)
    progress.complete_apart([3, 4])
    assert progress.checkpoint() == Checkpoint(6, "")


def test_an_offset_that_is_next_and_finished() -> None:
    """It is skipped when it is fetched."""
    progress = tracked(start=4)
    progress.complete_apart([4])
    assert read(restart(progress.checkpoint()), [4, 5]) == [5]


@pytest.mark.parametrize("seed", range(8))
def test_the_metadata_never_grows_while_records_are_read_and_leave(seed: int) -> None:
    """Holes do not matter; only the text of the committed offset may become longer, and space is left for that."""
    random = Random(seed)  # noqa: S311 - the test repeats it
    offsets = sorted(random.sample(range(20_000), 9_000))
    progress = tracked(*offsets[:100])
    wanted = sorted(random.sample(offsets, 4_000))
    apart = wanted[: progress.space_apart(wanted)]
    assert 1_000 < len(apart) < 4_000, "the limit was reached"
    progress.complete_apart(apart)
    first = len(progress.checkpoint().metadata)
    assert not set(read(progress, offsets[100:])) & set(apart)
    others = sorted(set(offsets) - set(apart))
    for begin in range(0, len(others), 97):
        checkpoint = progress.checkpoint()
        assert len(checkpoint.metadata) <= first + OFFSET_BYTES
        left = read(restart(checkpoint), [at for at in offsets if at >= checkpoint.offset])
        assert left == others[begin:]
        progress.complete(others[begin : begin + 97])
    assert progress.checkpoint() == Checkpoint(offsets[-1] + 1, "")


def test_space_is_for_the_first_of_many() -> None:
    """Adjacent ones take the space of one; those that are too far away have none."""
    assert tracked().space_apart(range(1, MAX_APART + 9)) == MAX_APART
    assert tracked().space_apart([]) == 0
    number = tracked().space_apart(range(1, 4_000, 2))
    progress = tracked()
    progress.complete_apart(range(1, 2 * number, 2))
    assert len(progress.checkpoint().metadata) <= METADATA_LIMIT
    assert progress.space_apart([2 * number + 1]) == 0
    assert progress.space_apart([2 * number - 2]) == 1, "it closes a gap"


def test_older_versions_read_it() -> None:
    """The format is that of any partition."""
    progress = tracked(0, 1, 2, 5)
    progress.complete_apart([1, 5])
    decoded = decode(0, progress.checkpoint().metadata)
    assert (decoded.end, decoded.outstanding) == (6, {0, 2, 3, 4})


def test_metadata_of_another_program_takes_no_memory() -> None:
    """It names an offset far away, and is read as that of any partition."""
    progress = Progress.restore(0, far_away())
    progress.in_order()
    assert progress.apart == set()
    assert not progress.track(5)


def far_away() -> str:
    """Metadata that has everything but the first offset finished, up to one far away."""
    progress = Progress(0)
    progress.track(0)
    progress.reach_end(2**40)
    progress.track(2**40)
    progress.complete([2**40])
    return progress.checkpoint().metadata
