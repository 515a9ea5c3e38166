"""One partition of a task: its progress, and which of its records are still to be handled."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.pipeline.handler.rows import Rows
from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.topology.wire.progress_metadata import HOLE_BITS
from kafka_redelivery.transport.errors import ReaderError

if TYPE_CHECKING:
    from kafka_redelivery.consumers.routes import Route
    from kafka_redelivery.transport.protocols import Partition


class OpenPartition:
    """A partition whose records a task handles, from the first that it is given to the last write."""

    def __init__(
        self,
        partition: Partition,
        route: Route,
        first: int,
        committed: Checkpoint | None,
        *,
        redelivered: bool,
        mark: str = "",
        named_in_commits: bool = False,
    ) -> None:
        """Continue from the committed offset.

        Args:
            partition: the topic partition.
            route: the route of its topic.
            first: the first offset that the task was given.
            committed: the group's commit; ``None`` = there is none.
            redelivered: whether it is a partition of a ready topic.
            mark: the mark of its topic; empty if it is unknown.
            named_in_commits: whether commits name the topic.

        Raises:
            ReaderError: a ready topic has no committed offset.
            ProgressError: the metadata of the commit was not written by this project.
        """
        if committed is None and redelivered:
            topic, number = partition
            raise ReaderError(
                f"{topic}-{number} has no committed offset for this group, so records that wait there could be lost or "
                "repeated; run `redelivery topology check`, then `redelivery topology apply`"
            )
        self.unanswered: set[int] = set()
        """Offsets of the records that were sent to the handler and have no outcome yet."""

        progress = Progress(first) if committed is None else Progress.restore(committed.offset, committed.metadata)
        progress.mark = mark if named_in_commits else ""
        self.assigned = AssignedPartition(partition, route, redelivered, progress, committed, mark=mark)

    def has_room(self, rows: Rows) -> bool:
        """Whether the metadata of a commit has room for what these records and the unanswered ones may end in."""
        if not self.unanswered:
            return True
        progress, offsets = self.assigned.progress, rows.offsets()
        return progress.can_track(
            sum(min(after - before, HOLE_BITS) for before, after in pairwise((progress.next_offset - 1, *offsets)))
        )

    def unfinished(self, rows: Rows) -> Iterator[Rows]:
        """Yield the runs of records that are not finished. They count as unanswered from now on."""
        progress, offsets = self.assigned.progress, rows.offsets()
        if offsets[-1] - offsets[0] + 1 == len(offsets) and progress.track_range(offsets[0], len(offsets)):
            self.unanswered.update(offsets)
            yield rows
            return
        wanted = [offset >= progress.next_offset and progress.track(offset) for offset in offsets]
        self.unanswered.update(offset for offset, each in zip(offsets, wanted, strict=True) if each)
        first = None
        for index, each in enumerate((*wanted, False)):
            if each:
                first = index if first is None else first
            elif first is not None:
                yield rows[first:index]
                first = None
