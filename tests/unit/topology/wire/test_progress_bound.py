"""Metadata that names its offset is not applied to another one."""

import pytest

from kafka_redelivery.topology.errors import ProgressError
from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.topology.wire.progress_metadata import METADATA_LIMIT, WAITING_BYTES, WaitingRecord


def committed(*, bound: bool, author: int | None = None) -> Checkpoint:
    """The commit of a partition in which offset 5 waits in place, 6 is unfinished and 7 to 9 are finished."""
    progress = Progress(5, author=author, bound=bound)
    progress.track_range(5, 5)
    progress.complete([7, 8, 9])
    progress.wait_in_place(5, 2, 1_700_000_000_000)
    if author is not None:
        progress.note_end = 7
    return progress.checkpoint()


@pytest.mark.parametrize(
    ("bound", "author", "name"), [(False, None, "p1:"), (False, 3, "p2:"), (True, None, "p3:"), (True, 3, "p4:")]
)
def test_every_format_is_read(bound: bool, author: int | None, name: str) -> None:  # noqa: FBT001
    """Processes of two feature levels take partitions from each other."""
    point = committed(bound=bound, author=author)
    assert point.metadata.startswith(name)
    progress = Progress.restore(point.offset, point.metadata, author)
    assert [progress.track(offset) for offset in range(5, 11)] == [True, True, False, False, False, True]
    assert progress.waiting[5].deliveries == 2
    assert not progress.moved


@pytest.mark.parametrize("author", [None, 3])
@pytest.mark.parametrize("offset", [0, 4, 6, 5000])
def test_metadata_of_another_offset_is_ignored(offset: int, author: int | None) -> None:
    """Every record above the offset is delivered."""
    progress = Progress.restore(offset, committed(bound=True, author=author).metadata, author)
    assert progress.moved
    assert progress.next_offset == offset
    assert all(progress.track(offset + step) for step in range(10))
    assert progress.waiting == {}


def test_damaged_metadata_is_still_an_error() -> None:
    """The checksum covers the offset and the format."""
    for bound in (True, False):
        point = committed(bound=bound)
        for index, character in enumerate(point.metadata):
            for bit in range(7):
                damaged = point.metadata[:index] + chr(ord(character) ^ 1 << bit) + point.metadata[index + 1 :]
                try:
                    progress = Progress.restore(point.offset, damaged)
                except ProgressError:
                    continue
                assert not progress.moved, "base64 does not use the bit"
                assert progress.waiting == {5: WaitingRecord(2, 1_700_000_000_000)}


def test_the_offset_fits_into_the_limit() -> None:
    """The estimate of the space has room for it."""
    progress = Progress(2**62, max_waiting=METADATA_LIMIT // WAITING_BYTES // 2, bound=True, author=2**31)
    offset = progress.next_offset
    while progress.can_track_offset(offset):
        progress.track(offset)
        if len(progress.waiting) < progress.max_waiting:
            progress.wait_in_place(offset, 10**6, 2**62)
        else:
            progress.complete([offset])
        offset += 7
    progress.note_end = progress.suspect_end = offset
    point = progress.checkpoint()
    assert len(point.metadata) <= METADATA_LIMIT
    assert not Progress.restore(point.offset, point.metadata, 2**31).moved
