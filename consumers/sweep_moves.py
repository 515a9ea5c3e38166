"""Copies of expired dead letters, written to their expiry topics before the originals are removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from topology.expiry import Fate
from topology.headers import expired_dead_letter_headers
from topology.progress import Checkpoint
from topology.sweep_plan import SweepPlan
from transport.errors import WriteRefusedError
from transport.message_headers import headers_of
from transport.protocols import Copy, Message, Partition, Writer
from transport.reader import Reader


@dataclass(slots=True)
class Moves:
    """The copies of one write."""

    copies: list[Copy] = field(default_factory=list)
    owners: list[tuple[Partition, int]] = field(default_factory=list)
    """For each copy the dead letter that it stands for."""

    @property
    def numbers(self) -> Counter[Partition]:
        """How many there are of each partition."""
        return Counter(place for place, _ in self.owners)


class Mover:
    """Makes the copies and writes them, with the offsets behind their originals in one transaction."""

    def __init__(self, plan: SweepPlan, reader: Reader, writer: Writer | None) -> None:
        """Prepare.

        Args:
            plan: says what goes where.
            reader: tells the topics that there are.
            writer: the only way to Kafka; ``None`` where nothing is to be moved.
        """
        self._plan = plan
        self._reader = reader
        self._writer = writer
        self._partitions: Mapping[str, int] = {}

    def add(self, moves: Moves, place: Partition, message: Message, fate: Fate, now_ms: int) -> None:
        """Add the copy that is to be kept of an expired dead letter, if there is to be one."""
        topic = self._plan.expiry_topic(place.topic, fate.source)
        if topic is None:
            return
        if not self._partitions:
            self._partitions = self._reader.partition_counts()
        partition = place.number % self._partitions.get(topic, 1)
        headers = expired_dead_letter_headers(headers_of(message), now_ms)
        moves.copies.append(Copy(topic, partition, message.key(), message.value(), headers))
        moves.owners.append((place, message.offset()))

    def write(self, moves: Moves, checkpoints: Mapping[Partition, Checkpoint]) -> dict[Partition, tuple[int, str]]:
        """Write all, or nothing if any is refused.

        Returns:
            for each partition with refused copies the first dead letter's offset, and why; empty if all is done.

        Raises:
            WriteUndoneError, WriterFencedError: as of :meth:`transport.protocols.Writer.write`.
        """
        if self._writer is None:
            raise AssertionError("there is something to move, but nothing to write it with")
        # Producing cannot be asked whether a topic exists: it may create it, or wait long.
        reasons = {
            index: f"there is no topic {copy.topic}; mend with `redelivery topology apply`"
            for index, copy in enumerate(moves.copies)
            if copy.topic not in self._partitions
        }
        if reasons:
            self._partitions = {}  # looked up again when it is tried again
        else:
            try:
                self._writer.write(moves.copies, checkpoints, member=self._writer.member())
                self._writer.finish(checkpoints)
            except WriteRefusedError as error:
                reasons = {refusal.index: refusal.reason for refusal in error.refusals}
        refused: dict[Partition, tuple[int, str]] = {}
        for index in sorted(reasons):  # in the order in which they were read
            place, offset = moves.owners[index]
            refused.setdefault(place, (offset, reasons[index]))
        return refused

    def close(self) -> None:
        """Release the client."""
        if self._writer is not None:
            self._writer.close()
