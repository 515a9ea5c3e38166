"""The outcomes of records, decided once. An aborted write does not lose them: they are written again."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.lane import size_of
from kafka_redelivery.consumers.flow.session import Delivery
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.topology.policy.decision import Decision, Failure, Halt
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.redrive.actions import Outcome, outcome_of
from kafka_redelivery.topology.wire.headers import Headers, read_due
from kafka_redelivery.topology.wire.progress_metadata import WaitingRecord
from kafka_redelivery.topology.wire.redrive_mark import RedriveMark, parse_mark
from kafka_redelivery.transport.clients.message_headers import headers_of
from kafka_redelivery.transport.protocols import Message, ProducerRecord


class Decided(NamedTuple):
    """A record that failed, and what was decided about it."""

    message: Message
    headers: Headers
    lineage: Lineage
    """Includes the failed delivery if that counts."""

    decision: Decision
    now_ms: int
    """When it was decided (epoch ms)."""

    stays: bool
    """Whether the record is not finished."""

    audited: bool
    """Whether the decision has added a dead letter to the audit."""

    failure: Failure
    """Why it failed, as far as it may be written down."""


class Unwritten(NamedTuple):
    """A record that was produced for the record at ``offset``, and that the broker has not confirmed."""

    offset: int
    role: str
    record: ProducerRecord


@dataclass(slots=True, eq=False)
class Outcomes:
    """The outcomes of the first records of a work item, up to its ``position``. Only the polling thread uses it."""

    item: WorkItem
    decided: dict[int, Decided] = field(default_factory=dict)
    """The records that failed, by index."""

    unacknowledged: dict[int, Delivery] = field(default_factory=dict)
    """The records without an outcome, by index: their handlers have not acknowledged them."""

    refetched: bool = False
    """Whether the failure is that of an earlier write, or of a worker that died."""

    waited: dict[int, WaitingRecord] = field(default_factory=dict)
    """The finished records that waited in place until then, by offset."""

    produced: range = range(0)
    """Indexes of its records in the batch that contains it."""

    unwritten: list[Unwritten] | None = None
    """What is still to be produced, if an aborted write has produced a part; ``None`` = everything."""

    _bytes: int = -1

    @property
    def assigned(self) -> AssignedPartition:
        """The partition of the records."""
        return self.item.lane.assigned

    @property
    def bytes(self) -> int:
        """Size of the records and their outputs. Computed once, because the buffer is charged with it at each fetch."""
        if self._bytes < 0:
            messages = self.item.messages[: self.item.position]
            outputs = (each for _, outputs in self.item.outputs for each in outputs)
            self._bytes = size_of(messages) + sum(len(each.value or b"") for each in outputs)
        return self._bytes

    @property
    def halts(self) -> bool:
        """Whether a decision halts the worker."""
        return any(isinstance(each.decision, Halt) for each in self.decided.values())

    def finished(self) -> list[int]:
        """Return the offsets that need no further write."""
        offsets = self.item.offsets()
        if not (self.decided or self.unacknowledged):
            return offsets
        unfinished = {index for index, each in self.decided.items() if each.stays} | self.unacknowledged.keys()
        return [offset for index, offset in enumerate(offsets) if index not in unfinished]

    def unsuccessful(self) -> AbstractSet[int]:
        """Return the indexes of the records that failed, or have no outcome."""
        return self.decided.keys() | self.unacknowledged.keys()

    def succeeded(self) -> list[Lineage]:
        """Return the lineages of the redelivered records that succeeded."""
        unsuccessful = self.unsuccessful()
        return [
            each for index, each in enumerate(self.item.lineages[: self.item.position]) if index not in unsuccessful
        ]

    def redriven(self) -> Iterator[tuple[int, RedriveMark, Outcome]]:
        """Yield index, mark and outcome of each record that was sent again from a dead-letter topic and has ended."""
        for index, lineage in enumerate(self.item.lineages[: self.item.position]):
            mark = parse_mark(lineage.redrive) if lineage.redrive and index not in self.unacknowledged else None
            decided = self.decided.get(index)
            ended = None if mark is None else outcome_of(None if decided is None else decided.decision)
            if mark is not None and ended is not None:
                yield index, mark, ended

    def arrived_again(self) -> int:
        """Return how many records that were sent again from a dead-letter topic have left the place where they arrived.

        They have ended, or their first retry since is a new record, which has a due time.
        """
        stay = {index for index, each in self.decided.items() if each.stays} | self.unacknowledged.keys()
        return sum(
            index not in stay and parse_mark(lineage.redrive) is not None and read_due(headers_of(message)) is None
            for index, (lineage, message) in enumerate(zip(self.item.lineages, self.item.messages, strict=False))
            if lineage.redrive and index < self.item.position
        )

    def dead_letters(self) -> list[Lineage]:
        """Return the lineages of the dead letters in the audit that no write has produced."""
        unwritten = None if self.unwritten is None else {each.offset for each in self.unwritten}
        return [
            each.lineage
            for each in self.decided.values()
            if each.audited and (unwritten is None or each.message.offset() in unwritten)
        ]

    def split(self, max_records: int, max_bytes: int) -> tuple[Outcomes, Outcomes | None]:
        """Return the outcomes of the first records, at least of one, and those of the rest, if there are any.

        Args:
            max_records: how many records the first part may have.
            max_bytes: size of these records and their outputs.
        """
        item = self.item
        sizes = [size_of((message,)) for message in item.messages[: item.position]]
        for index, outputs in item.outputs:
            sizes[index] += sum(len(output.value or b"") for output in outputs)
        number, total = 1, sizes[0]
        while number < min(item.position, max_records) and total + sizes[number] <= max_bytes:
            total += sizes[number]
            number += 1
        if number >= item.position:
            return self, None
        return self._part(0, number), self._part(number, item.position)

    def _part(self, first: int, end: int) -> Outcomes:
        item = self.item.part(first, end)
        item.bytes = size_of(item.messages)
        offsets = set(item.offsets())
        within = range(first, end)
        return Outcomes(
            item,
            {index - first: each for index, each in self.decided.items() if index in within},
            {index - first: each for index, each in self.unacknowledged.items() if index in within},
            self.refetched,
            unwritten=None if self.unwritten is None else [each for each in self.unwritten if each.offset in offsets],
        )
