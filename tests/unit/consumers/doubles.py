"""What stands on the other side of transport's protocols: told beforehand what to do, and noting what was asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from consumers.observer import Committed, Silent
from topology.progress import Checkpoint
from transport.protocols import Copy, Due, Listener, Message, Partition, Written


@dataclass
class ScriptedWriter:
    """A writer to whom these things happen, one after the other; after them every write is confirmed at once."""

    script: list[Exception] = field(default_factory=list)
    tried: list[tuple[list[Copy], dict[Partition, Checkpoint]]] = field(default_factory=list)
    confirmed: list[tuple[list[Copy], dict[Partition, Checkpoint]]] = field(default_factory=list)
    dues: list[Due | None] = field(default_factory=list)
    """Of each write tried."""

    seconds: float = 0.0
    """How long each write takes."""

    slow: bool = False
    """While it is true, no write ends."""

    closed: bool = False
    busy: bool = False

    def begin(
        self, copies: Sequence[Copy], checkpoints: Mapping[Partition, Checkpoint], due: Due | None = None
    ) -> None:
        """See :class:`transport.protocols.BackgroundWriter`."""
        assert not self.busy
        self.busy = True
        self.tried.append((list(copies), dict(checkpoints)))
        self.dues.append(due)

    def ended(self, within_s: float | None = 0.0) -> Written | None:
        """See :class:`transport.protocols.BackgroundWriter`."""
        assert self.busy
        if self.slow and within_s is not None:
            return None
        self.busy = False
        if self.script:
            raise self.script.pop(0)
        self.confirmed.append(self.tried[-1])
        return Written(self.seconds)

    def close(self) -> None:
        """See :class:`transport.protocols.BackgroundWriter`."""
        self.closed = True


class Noting(Silent):
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.commits: list[Committed] = []
        self.causes_undone: list[str] = []
        self.causes_halted: list[str] = []
        self.rebalances: list[str] = []

    def committed(self, details: Committed) -> None:
        """Keep it."""
        self.commits.append(details)

    def undone(self, cause: str) -> None:
        """Keep it."""
        self.causes_undone.append(cause)

    def halted(self, cause: str) -> None:
        """Keep it."""
        self.causes_halted.append(cause)

    def rebalanced(self, event: str) -> None:
        """Keep it."""
        self.rebalances.append(event)


@dataclass
class StoredOffsets:
    """A reader of partitions with these committed offsets and bounds, and these records to be fetched."""

    commits: dict[Partition, Checkpoint] = field(default_factory=dict)
    ends: dict[Partition, tuple[int, int]] = field(default_factory=dict)
    fetches: list[list[Message]] = field(default_factory=list)
    sought: list[tuple[Partition, int]] = field(default_factory=list)
    paused: set[Partition] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)

    def fetch(self, maximum: int, timeout_s: float) -> list[Message]:
        """See :class:`transport.protocols.Source`."""
        del timeout_s
        if not self.fetches:
            return []
        records = self.fetches.pop(0)
        assert len(records) <= maximum
        return records

    def pause(self, partitions: Iterable[Partition]) -> None:
        """See :class:`transport.protocols.Source`."""
        self.paused |= set(partitions)

    def resume(self, partitions: Iterable[Partition]) -> None:
        """See :class:`transport.protocols.Source`."""
        self.paused -= set(partitions)

    def seek(self, partition: Partition, offset: int) -> None:
        """See :class:`transport.protocols.Source`."""
        self.sought.append((partition, offset))

    def committed(self, partitions: Iterable[Partition]) -> Mapping[Partition, Checkpoint | None]:
        """See :class:`transport.protocols.Source`."""
        return {place: self.commits.get(place) for place in partitions}

    def bounds(self, partition: Partition) -> tuple[int, int]:
        """See :class:`transport.protocols.Source`."""
        return self.ends[partition]

    def ahead(self, partition: Partition, next_offset: int) -> int:
        """See :class:`transport.protocols.Source`."""
        return self.ends.get(partition, (0, next_offset))[1] - next_offset

    def partition_counts(self) -> Mapping[str, int]:
        """See :class:`transport.protocols.Source`."""
        return self.counts

    def subscribe(self, topics: Sequence[str], listener: Listener) -> None:
        """See :class:`transport.protocols.Source`."""

    def close(self) -> None:
        """See :class:`transport.protocols.Source`."""


@dataclass
class Clock:
    """Monotonic seconds that pass when they are told to."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        """Answer the time."""
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Let it pass."""
        self.now_s += seconds
