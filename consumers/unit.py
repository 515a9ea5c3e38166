"""The pieces of work between the polling thread and the slots."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from consumers.routes import Route
from topology.decision import Failure, FailureKind
from topology.lineage import Lineage
from topology.progress import InPlace, Progress
from transport.protocols import Copy, Message, Partition

if TYPE_CHECKING:
    from consumers.lane import Lane
    from consumers.session import Delivered


@dataclass(slots=True, eq=False)
class Assigned:
    """One partition that this worker owns. Touched by the polling thread only."""

    partition: Partition
    route: Route
    redelivered: bool
    """Whether it is a ready partition: its records carry a lineage in their headers."""

    progress: Progress
    dirty: bool = False
    """Whether there is progress that no commit has told of yet."""

    closed: bool = False
    """Revoked, lost or rewound: results that still come for it are void."""


@dataclass(slots=True, eq=False)
class Unit:
    """A run of records of one lane, handled one after the other in one slot.

    The slot fills in the outcome of each record and moves ``position`` past it; it may come back
    before the end (asked to ``stop``, or its time slice is over), and the rest goes back to the lane.

    The polling thread may look at a unit, and take it away, while the slot works on it. Instead of a
    lock there is an order of steps: the slot notes an outcome and when the next record begins, moves
    ``position`` last, and looks at ``stop`` only after that. So whatever is noted below ``position``
    is whole, and who sets ``stop`` and then still finds the same ``position`` knows that no other
    record is begun.
    """

    lane: Lane
    messages: list[Message]
    position: int = 0
    """How many records have their outcome."""

    failures: list[tuple[int, Failure]] = field(default_factory=list)
    outputs: list[tuple[int, list[Copy]]] = field(default_factory=list)
    lineages: list[Lineage] = field(default_factory=list)
    """One for each record handled, of a ready partition or in place; empty for a source."""

    unacknowledged: list[tuple[int, Delivered]] = field(default_factory=list, kw_only=True)
    """What the handler returned from without a word; only where it has to acknowledge."""

    lateness: list[tuple[int, int]] = field(default_factory=list)
    """For each redelivery handed to the handler: its index, and how many ms after it was due."""

    seconds: list[float] = field(default_factory=list)
    """How long each handler call took."""

    bytes: int = 0
    """Of the records with an outcome; known once the unit is back in its lane."""

    taken: int = 0
    """So many of the first records were taken over early, see :meth:`split`."""

    in_place: InPlace | None = None
    """The deliveries made of its only record, which waited in place or is handed out alone."""

    stop: bool = False
    abandoned: bool = False
    """Given up by the polling thread: whatever the slot still finds out is void."""

    started_s: float = 0.0
    """When the record at ``position`` was begun (monotonic); 0 = the unit is in no slot."""

    @property
    def counted(self) -> bool:
        """Whether its records have a lineage of their own: deliveries were made of them."""
        return self.lane.assigned.redelivered or self.in_place is not None

    def offsets(self) -> list[int]:
        """Of the records with an outcome."""
        return [message.offset() for message in self.messages[: self.position]]

    def emitted(self, held: Container[int] = ()) -> tuple[list[Copy], list[int]]:
        """What was emitted, without the records at ``held``, and for each the offset of the record that did."""
        copies: list[Copy] = []
        offsets: list[int] = []
        for index, outputs in self.outputs:
            if index not in held:
                copies += outputs
                offsets += [self.messages[index].offset()] * len(outputs)
        return copies, offsets

    def abandon(self, limit_s: float) -> Unit | None:
        """Give up the record at ``position`` if it was begun before ``limit_s`` (monotonic).

        Returns:
            a unit with everything found out before that record, to go on with; ``None`` if there is
            no such record, or it got its outcome just now.
        """
        position = self.position
        if not 0.0 < self.started_s < limit_s or position >= len(self.messages):
            return None
        self.stop = True
        if self.position != position:
            return None
        self.abandoned = True
        late = self._fork(position)
        late.in_place = self.in_place
        late.taken = self.taken
        return late.without_taken()

    def split(self, limit_s: float) -> tuple[Unit, list[Message]] | None:
        """Leave the slot alone with the record it is at, if that was begun before ``limit_s`` (monotonic).

        Returns:
            what is done so far as a unit of its own, and the records that are not begun;
            ``None`` if nobody has to wait for that record, or the unit comes back at once anyway.
        """
        position = self.position
        if self.stop or len(self.messages) == 1 or not 0.0 < self.started_s < limit_s:
            return None
        self.stop = True
        if self.position != position or position >= len(self.messages):
            return None
        done = self._fork(position)
        done.messages = self.messages[:position]
        done.lineages = done.lineages[:position]
        done.lateness = [entry for entry in done.lateness if entry[0] < position]
        rest = self.messages[position + 1 :]
        del self.messages[position + 1 :]
        self.taken = position
        return done, rest

    def without_taken(self) -> Unit:
        """What is left of a unit that came back, or was abandoned, after it had been split."""
        first = self.taken
        if not first:
            return self
        return Unit(
            self.lane,
            self.messages[first:],
            self.position - first,
            [(index - first, failure) for index, failure in self.failures if index >= first],
            [(index - first, copies) for index, copies in self.outputs if index >= first],
            self.lineages[first:],
            [(index - first, late) for index, late in self.lateness if index >= first],
            self.seconds[first:],
            unacknowledged=[(index - first, each) for index, each in self.unacknowledged if index >= first],
        )

    def fail(self, error: BaseException) -> None:
        """Note that the slot itself failed at the record it was at."""
        if not self.abandoned and self.position < len(self.messages):
            failure = Failure(FailureKind.CRITICAL, type(error).__qualname__, f"in the slot: {error}")
            self.failures.append((self.position, failure))
            del self.lineages[self.position :]
            if self.counted:
                message = self.messages[self.position]
                place = self.lane.assigned.partition
                self.lineages.append(Lineage(place.topic, place.number, message.offset(), 0))
            self.position += 1

    def _fork(self, position: int) -> Unit:
        """What is known up to a position, and of the record there what was known before its handler was called."""
        return Unit(
            self.lane,
            self.messages,
            position,
            [entry for entry in self.failures if entry[0] < position],
            [entry for entry in self.outputs if entry[0] < position],
            self.lineages[: position + 1],
            [entry for entry in self.lateness if entry[0] <= position],
            self.seconds[:position],
            unacknowledged=[entry for entry in self.unacknowledged if entry[0] < position],
        )
