"""The partitions of tiers that a scheduler owns, and where it reads them from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.flow.first_offsets import KEEP_EVERY_S, FirstOffsets
from kafka_redelivery.consumers.flow.stops import LostPosition, Stops
from kafka_redelivery.consumers.scheduler.release import Release
from kafka_redelivery.consumers.scheduler.tier_partition import TierPartition
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.clients.topic_watch import FoundTopic
from kafka_redelivery.transport.errors import WriteRefusedError
from kafka_redelivery.transport.protocols import Partition, Reader


class AssignedTiers:
    """Opens each partition at its committed progress. Only the scheduler's thread uses it."""

    def __init__(self, reader: Reader, first_offsets: FirstOffsets, stops: Stops, mixed_topic: str) -> None:
        """Start without partitions.

        Args:
            reader: returns committed offsets.
            first_offsets: chooses where a partition without a committed offset starts.
            stops: gets the partitions that have no position.
            mixed_topic: the name of the tier whose records stay for different times.
        """
        self._reader = reader
        self._first_offsets = first_offsets
        self._stops = stops
        self._mixed_topic = mixed_topic
        self._keep_at_s = monotonic_s() + KEEP_EVERY_S
        self.delays_ms: dict[str, int] = {}
        """The delay of each tier that exists."""

        self.opened: dict[Partition, TierPartition] = {}
        """The partitions that are read. A halted one is among them while records that were fetched before wait."""

        self.unwritten: set[Partition] = set()
        """The opened partitions whose offset has to be committed, even if no record is released."""

    @property
    def owned(self) -> list[Partition]:
        """The opened partitions, and those that are halted instead. Safe from any thread."""
        return [*self.opened, *self._stops.lost]

    def open(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Start each partition at its committed progress, and return the offsets to read from.

        A partition halts if its committed offset has expired or may not be read, its metadata cannot be read, or its
        start is unknown, also because it has no leader. What was fetched of it is dropped, because a later commit would
        pass the records of an aborted write.
        """
        starts = {}
        partitions = list(partitions)
        positions = self._first_offsets.positions(partitions, self.opened)
        for partition in partitions:
            if partition.topic not in self.delays_ms or partition in self._first_offsets.gone:
                self._close(partition)  # the tier was deleted meanwhile, or has fewer partitions now
                continue
            start = self._first_offsets.start(partition, positions, internal=True, repeated="released")
            starts[partition] = start.offset
            if isinstance(start.found, LostPosition):
                self._close(partition)
                self._stops.lose(start.found)
                continue
            if positions[partition] is None:
                self.unwritten.add(partition)
            else:
                self.unwritten.discard(partition)
            topic = partition.topic
            ordered = topic != self._mixed_topic
            before = self.opened.get(partition)
            self.opened[partition] = TierPartition(
                topic, self.delays_ms[topic], start.found, ordered=ordered, before=before
            )
        self.unwritten |= self._first_offsets.restored & self.opened.keys()
        return starts

    def mark_of(self, partition: Partition) -> str:
        """Return the mark of the topic that a partition was opened in; empty if it is unknown."""
        return self._first_offsets.mark_of(partition)

    def rewind(self, partitions: Iterable[Partition] | None = None) -> None:
        """Start partitions that are opened, all by default, again at their committed offsets."""
        opened = list(self.opened) if partitions is None else [each for each in partitions if each in self.opened]
        self._seek(opened)

    def are_at(self, checkpoints: Mapping[Partition, Checkpoint]) -> bool:
        """Return whether all these offsets are committed, right after a :meth:`rewind`."""
        known = {each: tier.progress for each, tier in self.opened.items() if each not in self.unwritten}
        return all(each in known and known[each].checkpoint() == at for each, at in checkpoints.items())

    def to_restart(self, now: Mapping[str, FoundTopic]) -> list[Partition]:
        """Return the partitions to :meth:`restart`; see :meth:`FirstOffsets.to_restart`."""
        return self._first_offsets.to_restart(now, self.owned)

    def restart(self, partitions: Collection[Partition]) -> None:
        """Read partitions that were given up from the start of their new topics."""
        self._seek(partitions)

    def resume_moved(self, in_flight: Release | None) -> None:
        """Open the halted partitions whose committed offset was moved. ``in_flight``: the write that is under way."""

        def busy() -> set[Partition]:
            unfinished = {each for each, tier in self.opened.items() if tier.progress.outstanding}
            return unfinished if in_flight is None else unfinished | in_flight.checkpoints.keys()

        moved = self._stops.moved(
            self._first_offsets.committed_now,
            busy,
            lambda: self._first_offsets.control_problem() is None,
            self._first_offsets.answers,
        )
        for partition in moved:
            self._stops.drop(partition)
        self._seek(moved)

    def give_up(self, partitions: Collection[Partition]) -> None:
        """Drop partitions that are no longer owned."""
        for partition in partitions:
            self._stops.drop(partition)
            self._first_offsets.close(partition)
            self._close(partition)

    def refuse(self, release: Release, error: WriteRefusedError) -> dict[Partition, Checkpoint]:
        """Note the refused records of a write, which become dead letters.

        If a record is refused a second time, or for a cause outside it, its partition halts.

        Returns:
            The offsets of the other partitions whose records are written nevertheless, if there is no transaction.
        """
        halted: set[Partition] = set()
        for refused in error.refused:
            partition, offset = release.origins[refused.index]
            tier = self.opened.get(partition)
            if tier is None:
                halted.add(partition)  # given up meanwhile: its next owner releases the record
            elif offset not in tier.refusals and not refused.cause.outside:
                tier.refusals[offset] = refused.reason
            elif partition not in halted:
                halted.add(partition)
                self._stops.refuse(partition, offset, release.produced[refused.index], refused)
        if not error.others_written:
            return {}
        return {partition: point for partition, point in release.checkpoints.items() if partition not in halted}

    def confirm(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """Note that these offsets are committed. Refused records below them are finished."""
        self.unwritten.difference_update(checkpoints)
        self._stops.confirm(checkpoints)
        for partition, checkpoint in checkpoints.items():
            tier = self.opened.get(partition)
            if tier is not None and tier.refusals:
                tier.refusals = {at: why for at, why in tier.refusals.items() if at >= checkpoint.offset}

    def keep(self) -> None:
        """Let the offsets of all partitions be committed now and then, so that those of idle ones do not expire."""
        if monotonic_s() >= self._keep_at_s:
            self._keep_at_s = monotonic_s() + KEEP_EVERY_S
            self.unwritten.update(self.opened.keys() - self._stops.lost)

    def note_first_offsets(self) -> None:
        """Note in the control topic which partitions have a committed offset."""
        committed = {each: tier for each, tier in self.opened.items() if each not in self.unwritten}
        self._first_offsets.note_first_offsets({each: tier.progress.watermark for each, tier in committed.items()})

    def save_positions(self) -> None:
        """Save the committed positions of all partitions, because the scheduler stops."""
        self._first_offsets.save(self.opened)

    def checkpoints(self, released: Iterable[Partition]) -> dict[Partition, Checkpoint]:
        """Return the offsets that a write commits: those of the partitions it releases, and the unwritten ones.

        Without the right Read on a tier its first offset may not be committed.
        """
        forbidden = self._reader.forbidden
        unwritten = [each for each in self.unwritten if each.topic not in forbidden]
        return {each: self.opened[each].progress.checkpoint() for each in (*released, *unwritten)}

    def _close(self, partition: Partition) -> None:
        self.opened.pop(partition, None)
        self.unwritten.discard(partition)

    def _seek(self, partitions: Iterable[Partition]) -> None:
        for partition, start in self.open(partitions).items():
            self._reader.seek(partition, start)
