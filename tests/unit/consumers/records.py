"""Fetched records and their partitions. Not under test here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.lane import Lane
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.routes import Route
from kafka_redelivery.serdes.codec import Codec, RawCodec
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.policy.decision import Retry
from kafka_redelivery.topology.policy.entry import DeadLetterStrategy, PolicyEntry
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import HeaderList, Headers, ready_headers, retry_headers
from kafka_redelivery.topology.wire.progress import Progress
from kafka_redelivery.transport.protocols import Message, Partition

NOW = 1_780_000_000_000
"""The current time of the tests (epoch ms)."""

BORN = NOW - 60_000
"""When the source records were written (epoch ms)."""

RAW = RawCodec()


@dataclass(slots=True)
class Fetched:
    """A fetched record. Its attributes are methods, as in the client."""

    source: str
    number: int
    place: int
    key_bytes: bytes | None = None
    value_bytes: bytes | None = b"value"
    pairs: HeaderList | None = None
    stamp_ms: int = BORN

    def __len__(self) -> int:
        return len(self.value_bytes or b"")

    def topic(self) -> str:
        return self.source

    def partition(self) -> int:
        return self.number

    def offset(self) -> int:
        return self.place

    def key(self) -> bytes | None:
        return self.key_bytes

    def value(self) -> bytes | None:
        return self.value_bytes

    def headers(self) -> HeaderList | None:
        return self.pairs

    def set_headers(self, value: HeaderList) -> None:
        object.__setattr__(self, "pairs", value)

    def timestamp(self) -> tuple[int, int]:
        return 1, self.stamp_ms


def record(
    offset: int,
    value: bytes | None = b"value",
    *,
    key: bytes | None = None,
    headers: Headers | None = None,
    topic: str = "orders",
    partition: int = 0,
) -> Fetched:
    """A record of a source topic."""
    return Fetched(topic, partition, offset, key, value, None if headers is None else list(headers))


def lineage(offset: int = 7, *, partition: int = 5, deliveries: int = 1) -> Lineage:
    """The lineage of a record of ``orders`` that was delivered before."""
    return Lineage("orders", partition, offset, BORN, deliveries)


def waiting_headers(origin: Lineage, *, delay_ms: int = 1000, due_ms: int = NOW, own: Headers = ()) -> HeaderList:
    """The headers of its retry record in a tier."""
    return retry_headers(origin, "billing", own, Retry(delay_ms, due_ms))


def redelivery(
    offset: int, origin: Lineage, value: bytes | None = b"value", *, due_ms: int = NOW, own: Headers = ()
) -> Fetched:
    """Its record in the ready topic."""
    headers = ready_headers(waiting_headers(origin, due_ms=due_ms, own=own))
    return Fetched("billing.ready.orders", origin.partition, offset, None, value, headers, NOW)


def entry(
    policy: RedeliveryPolicy | None = None,
    strategy: DeadLetterStrategy | None = None,
    *,
    longest_own_delay_ms: int | None = None,
) -> PolicyEntry:
    """A policy entry, by default with the default policy and strategy."""
    return PolicyEntry(
        redelivery_policy=RedeliveryPolicy() if policy is None else policy,
        dead_letter_strategy=DeadLetterStrategy() if strategy is None else strategy,
        maximum_handler_delay=longest_own_delay_ms,
    )


def route(
    policy: PolicyEntry | None = None,
    *,
    key: Codec = RAW,
    value: Codec = RAW,
    topic: str = "orders",
    blocking: bool = False,
) -> Route:
    """The route of a source in the group ``billing``."""
    policy = entry() if policy is None else policy
    return Route(topic, f"billing.ready.{topic}", f"DLQ.{topic}", policy, key, value, blocking=blocking)


def source(way: Route | None = None, partition: int = 0, next_offset: int = 0) -> AssignedPartition:
    """A partition of the source."""
    way = route() if way is None else way
    return AssignedPartition(Partition(way.source, partition), way, redelivered=False, progress=Progress(next_offset))


def ready(way: Route | None = None, partition: int = 0, next_offset: int = 0) -> AssignedPartition:
    """A partition of the ready topic."""
    way = route() if way is None else way
    return AssignedPartition(Partition(way.ready, partition), way, redelivered=True, progress=Progress(next_offset))


def item(assigned: AssignedPartition, messages: Iterable[Message]) -> WorkItem:
    """A work item with these records, which the progress of their partition tracks."""
    found: Sequence[Message] = list(messages)
    for message in found:
        assert assigned.progress.track(message.offset())
    return WorkItem(Lane(assigned, exclusive=True), list(found))
