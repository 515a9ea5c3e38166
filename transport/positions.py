"""Where partitions begin and end, and where groups stand in them, asked for in whatever order the caller needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from topology.progress import Checkpoint
from transport.admin_calls import AdminCalls
from transport.client_config import Value, admin_config
from transport.group_offsets import committed
from transport.protocols import Partition

_TIMEOUT_S = 30.0


class Positions:
    """One client's questions. Not thread-safe; opens no connection before the first.

    Every method raises :class:`~transport.errors.BrokerUnavailableError` when no broker answers,
    :class:`~transport.admin_errors.NotAuthorisedError` when the user may not, and
    :class:`~transport.admin_errors.AdminError` when the cluster refuses for another reason.
    """

    def __init__(self, kafka: Mapping[str, Value], *, timeout_s: float = _TIMEOUT_S) -> None:
        self._kafka = kafka
        self._calls = AdminCalls(admin_config(kafka), timeout_s=timeout_s)

    def starts(self, places: Iterable[Partition]) -> dict[Partition, int]:
        """The first offset that is kept of each."""
        return self._ask(places, OffsetSpec.earliest(), IsolationLevel.READ_COMMITTED)

    def ends(self, places: Iterable[Partition]) -> dict[Partition, int]:
        """Up to where a reader of committed records gets in each now: not past the first open transaction."""
        return self._ask(places, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)

    def last(self, places: Iterable[Partition]) -> dict[Partition, int]:
        """One past whatever has been written to each, open transactions included."""
        return self._ask(places, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)

    def since(self, places: Iterable[Partition], epoch_ms: int) -> dict[Partition, int]:
        """The first offset of each with a timestamp that is not earlier; a partition without one is missing."""
        found = self._ask(places, OffsetSpec.for_timestamp(epoch_ms), IsolationLevel.READ_COMMITTED)
        return {place: offset for place, offset in found.items() if offset >= 0}

    def committed(self, group: str, places: Iterable[Partition]) -> dict[Partition, Checkpoint]:
        """What a group has committed, with metadata; a partition without a commit is missing. It is not joined."""
        wanted = [(place.topic, place.number) for place in places]
        found = committed(self._calls, self._kafka, group, wanted) if wanted else {}
        return {Partition(*place): point for place, point in found.items()}

    def _ask(self, places: Iterable[Partition], spec: OffsetSpec, isolation: IsolationLevel) -> dict[Partition, int]:
        wanted = {TopicPartition(place.topic, place.number): spec for place in places}
        if not wanted:
            return {}
        operation = "read where partitions begin and end"
        answers = self._calls.each(
            operation, lambda: self._calls.client.list_offsets(wanted, isolation_level=isolation)
        )
        return {Partition(place.topic, place.partition): answer.offset for place, answer in answers.items()}
