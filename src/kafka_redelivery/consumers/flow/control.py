"""Where a process finds out what its group remembers of partitions, and which topics these are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from kafka_redelivery.topology.wire.control import ControlState
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.clients.topic_watch import FoundTopic
from kafka_redelivery.transport.protocols import Partition


class Control(Protocol):
    """The control topic; see :class:`ControlTopic`."""

    @property
    def state(self) -> ControlState:
        """What is known of it."""
        ...

    def read(self) -> ControlState:
        """Read it to its end."""
        ...

    def note_first_offset(self, partition: Partition, offset: int) -> None:
        """Note that the group has committed an offset in a partition."""
        ...

    def note_unstarted(self, partition: Partition, since_ms: int) -> None:
        """Note since when (epoch ms) it is unknown where a partition starts."""
        ...

    def begin(self, partitions: Iterable[Partition]) -> None:
        """Read it to its end, and drop the saved positions of partitions that have a committed offset."""
        ...

    def problem(self) -> str | None:
        """Return why what is known may be older than the last :meth:`begin`; ``None`` = it is not. Never waits."""
        ...

    def know(self, marks: Mapping[Partition, str], former: Mapping[Partition, int]) -> None:
        """Drop what is known of older topics of these names; see :meth:`ControlTopic.know`."""
        ...

    def save(self, positions: Mapping[Partition, Checkpoint]) -> None:
        """Save the last committed positions of partitions that this process gives up because it stops."""
        ...


class NoControl:
    """A control topic that does not exist."""

    state = ControlState()

    def read(self) -> ControlState:
        """Return that nothing is known."""
        return self.state

    def note_first_offset(self, partition: Partition, offset: int) -> None:
        """Do nothing."""

    def note_unstarted(self, partition: Partition, since_ms: int) -> None:
        """Do nothing."""

    def begin(self, partitions: Iterable[Partition]) -> None:
        """Do nothing."""

    def problem(self) -> str | None:
        """Return ``None``."""

    def know(self, marks: Mapping[Partition, str], former: Mapping[Partition, int]) -> None:
        """Do nothing."""

    def save(self, positions: Mapping[Partition, Checkpoint]) -> None:
        """Do nothing."""


class Topics(Protocol):
    """Which topics stand behind names; see :class:`TopicWatch`."""

    def look(self, topics: Iterable[str]) -> Mapping[str, FoundTopic]:
        """Return the topics that may be described; wait until Kafka answers. A missing one has no partitions."""
        ...

    def poll(self, topics: Iterable[str], known: Mapping[str, FoundTopic]) -> Mapping[str, FoundTopic] | None:
        """Return a new answer without waiting; ``None`` if there is none."""
        ...


class NoTopics:
    """Topics of which nothing but their names is known."""

    def look(self, _topics: Iterable[str]) -> Mapping[str, FoundTopic]:
        """Return that nothing is known."""
        return {}

    def poll(self, _topics: Iterable[str], _known: Mapping[str, FoundTopic]) -> None:
        """Return that nothing has changed."""
