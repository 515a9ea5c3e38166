"""Moves expired dead letters: writes them to their expiry topics before the originals are removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_redelivery.topology.cluster.sweep_plan import SweepPlan
from kafka_redelivery.topology.wire.headers import expired_dead_letter_headers
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.clients.message_headers import headers_of
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.errors import WriteRefusedError
from kafka_redelivery.transport.protocols import Message, Partition, ProducerRecord, Writer


@dataclass(slots=True)
class ExpiryWrite:
    """The records of one write to expiry topics."""

    records: list[ProducerRecord] = field(default_factory=list)
    originals: list[tuple[Partition, int]] = field(default_factory=list)
    """For each record the partition and offset of its dead letter."""

    @property
    def numbers(self) -> Counter[Partition]:
        """Number of dead letters by partition."""
        return Counter(partition for partition, _ in self.originals)


class ExpiryWriter:
    """Produces the records for expiry topics, with the offsets behind their originals in one transaction."""

    def __init__(self, plan: SweepPlan, reader: GroupReader, writer: Writer | None) -> None:
        """Use these clients.

        Args:
            plan: maps dead letters to expiry topics.
            reader: knows the topics of the cluster.
            writer: writes the records; ``None`` if no dead letter is moved.
        """
        self._plan = plan
        self._reader = reader
        self._writer = writer
        self._partition_counts: Mapping[str, int] = {}

    def add(self, write: ExpiryWrite, topic: str, message: Message, now_ms: int) -> None:
        """Add the record for a dead letter that has expired and goes to this topic."""
        if not self._partition_counts:
            expiries = {each for each in self._plan.expiries.values() if each is not None}
            self._partition_counts = self._reader.partition_counts(expiries)
        partition = Partition(message.topic(), message.partition())
        number = partition.number % self._partition_counts.get(topic, 1)
        headers = expired_dead_letter_headers(headers_of(message), now_ms)
        write.records.append(ProducerRecord(topic, number, message.key(), message.value(), headers))
        write.originals.append((partition, message.offset()))

    def write(
        self, write: ExpiryWrite, checkpoints: Mapping[Partition, Checkpoint]
    ) -> dict[Partition, tuple[int, str]]:
        """Write all records, or none if any is refused.

        Returns:
            for each partition with refused records the offset of the first refused dead letter, and the reason;
            empty if the write is confirmed.

        Raises:
            WriteAbortedError, WriterFencedError: see :meth:`Writer.write`.
        """
        if self._writer is None:
            raise AssertionError("there is a dead letter to move, but no writer")
        # Producing to a missing topic may create it, or block for a long time.
        reasons = {
            index: f"there is no topic {record.topic}; create it with `redelivery topology apply`"
            for index, record in enumerate(write.records)
            if record.topic not in self._partition_counts
        }
        if reasons:
            self._partition_counts = {}  # look the topics up again at the next attempt
        else:
            try:
                self._writer.write(write.records, checkpoints, group_metadata=self._writer.group_metadata())
                self._writer.finish(checkpoints)
            except WriteRefusedError as error:
                reasons = {refused.index: refused.reason for refused in error.refused}
        first_refused: dict[Partition, tuple[int, str]] = {}
        for index in sorted(reasons):  # in reading order, so that the first one of a partition is kept
            partition, offset = write.originals[index]
            first_refused.setdefault(partition, (offset, reasons[index]))
        return first_refused

    def close(self) -> None:
        """Close the writer."""
        if self._writer is not None:
            self._writer.close()
