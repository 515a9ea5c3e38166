"""The control topic of a running worker or scheduler, which waits until it can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from kafka_redelivery.topology.errors import ControlRecordError
from kafka_redelivery.topology.wire.control import ControlState
from kafka_redelivery.transport.admin.control_topic import ControlTopic
from kafka_redelivery.transport.client_config import ConfigValue
from kafka_redelivery.transport.clients.outage import Outage, Report
from kafka_redelivery.transport.errors import ReaderError, StopRequestedError
from kafka_redelivery.transport.protocols import Partition

_Answer = TypeVar("_Answer")


class EnduringControlTopic(ControlTopic):
    """A :class:`ControlTopic` that is read when it is created, and then waits without limit.

    It waits for Kafka, and for an operator who removes the record of another program.
    """

    def __init__(
        self,
        kafka: Mapping[str, ConfigValue],
        group: str,
        topic: str,
        clock: Callable[[], int],
        report: Report,
        stopping: Callable[[], bool],
    ) -> None:
        """Read the topic to its end.

        Args:
            kafka: the client settings.
            group: the consumer group.
            topic: its control topic.
            clock: returns epoch ms.
            report: receives what the topic is waited for.
            stopping: whether the process is to stop; every wait then ends with a :class:`StopRequestedError`.

        Raises:
            ReaderError: Kafka does not answer, or refuses.
            ControlRecordError: another program has written to the topic.
        """
        super().__init__(kafka, group, topic, clock)
        super().read()
        self._outage = Outage("control topic", report)
        self._stopping = stopping

    def read(self) -> ControlState:
        """See :class:`ControlTopic`."""
        return self._repeat(super().read)

    def begin(self, partitions: Iterable[Partition]) -> None:
        """See :class:`ControlTopic`."""
        self._repeat(partial(super().begin, list(partitions)))

    def _repeat(self, ask: Callable[[], _Answer]) -> _Answer:
        while True:
            try:
                answer = ask()
            except (ReaderError, ControlRecordError) as error:
                if self._stopping():
                    raise StopRequestedError(str(error)) from error
                self._outage.wait(str(error))
            else:
                self._outage.over()
                return answer
