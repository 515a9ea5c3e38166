"""Test a handler through the real decision, without Kafka.

    kit = HandlerKit(charge, policy=RedeliveryPolicy(maximum_redeliveries=2), value=JsonCodec())
    story = kit.deliver({"amount": 5}, topic="orders")
    assert [type(d.decision).__name__ for d in story] == ["Retry", "Retry", "DeadLetter"]

The record goes through the same codec, handler adapter and :func:`topology.decision.decide` as in a
worker; only the clock is the kit's own, so a day of redeliveries takes no time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from consumers.handler import Handler, as_handler
from consumers.lane import Lane
from consumers.processor import Processor
from consumers.routes import Route
from consumers.unit import Assigned, Unit
from serdes.codec import Codec, RawCodec
from topology.decision import NOT_DELIVERED, Decision, Failure, Retry, decide
from topology.headers import HeaderList, retry_headers
from topology.lineage import Lineage
from topology.policy import DeadLetterStrategy, PolicyEntry, RedeliveryPolicy
from topology.progress import Progress
from transport.protocols import Copy, Partition

_START_MS = 1_700_000_000_000
_MOST_DELIVERIES = 1000


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery of the story: what was decided, and what the handler had emitted."""

    attempt: int
    """Deliveries made so far, this one included; 0 for a record that no handler saw."""

    decision: Decision
    failure: Failure | None
    outputs: tuple[Copy, ...]
    """Exactly what a worker would write: nothing, where the delivery failed."""

    at_ms: int
    """Epoch ms of the delivery, by the kit's clock."""


@dataclass(slots=True)
class HandlerKit:
    """Runs a handler, sync or async, with one or two parameters."""

    handler: Callable[..., Any]
    policy: RedeliveryPolicy = field(default_factory=RedeliveryPolicy)
    dead_letters: DeadLetterStrategy = field(default_factory=DeadLetterStrategy)
    maximum_handler_delay: int | None = None
    """The longest delay (ms) a handler may ask for itself; ``None`` = it may not."""

    not_retryable: tuple[type[BaseException], ...] = ()
    value: Codec = field(default_factory=RawCodec)
    key: Codec = field(default_factory=RawCodec)
    outputs: dict[str, tuple[Codec, Codec]] = field(default_factory=dict)
    """Codecs of key and value, for topics that the handler emits values to."""

    jitter: Iterable[float] = ()
    """Draws from [-1, 1) for a policy with collision avoidance, taken anew at each decision."""

    now_ms: int = _START_MS

    def deliver(
        self,
        value: Any,  # noqa: ANN401 - whatever the codec encodes
        *,
        key: Any = None,  # noqa: ANN401 - as the value
        headers: HeaderList | None = None,
        topic: str = "source",
    ) -> list[Delivery]:
        """Deliver a record until it is acknowledged, dead-lettered, discarded, or halts the worker.

        Args:
            value: encoded with the kit's codec first; bytes as they are, so that undecodable ones can be tried.
            key: the same.
            headers: the record's own.
            topic: the source.

        Returns:
            every delivery in order; the last one's decision ends the story (a policy without a limit
            is followed for 1,000 deliveries).

        Raises:
            HandlerLoadError: the handler takes neither (record) nor (record, context), or is a generator.
            EncodeError: the codec cannot encode the key or the value.
        """
        handler = as_handler(self.handler, self.not_retryable)
        story = []
        record = _Given(topic, self._bytes(self.key, key), self._bytes(self.value, value), headers or [], self.now_ms)
        lineage = Lineage(topic, 0, 0, self.now_ms)
        for _ in range(_MOST_DELIVERIES):
            delivery = self._deliver_once(handler, record, lineage)
            story.append(delivery)
            decision = delivery.decision
            if not isinstance(decision, Retry):
                break
            lineage = lineage.delivered(lineage.deliveries + 1)
            record = _Given(
                topic, record.key(), record.value(), retry_headers(lineage, "kit", headers or [], decision), self.now_ms
            )
            self.now_ms = decision.due_ms
        return story

    def _deliver_once(self, handler: Handler, record: _Given, lineage: Lineage) -> Delivery:
        entry = PolicyEntry(
            redelivery_policy=self.policy,
            dead_letter_strategy=self.dead_letters,
            maximum_handler_delay=self.maximum_handler_delay,
        )
        topic = lineage.address
        route = Route(topic, f"kit.ready.{topic}", f"DLQ.{topic}", entry, self.key, self.value)
        redelivered = lineage.deliveries > 0
        assigned = Assigned(Partition(topic, 0), route, redelivered, Progress(0))
        unit = Unit(Lane(assigned, exclusive=True), [record])
        processor = Processor(handler, self.outputs, lambda: self.now_ms, None)
        if handler.asynchronous:
            asyncio.run(processor.run_async(unit))
        else:
            processor.run(unit)
        failure = unit.failures[0][1] if unit.failures else None
        outputs = tuple(unit.outputs[0][1]) if unit.outputs else ()
        if failure is None or failure.kind not in NOT_DELIVERED:
            lineage = lineage.delivered(lineage.deliveries + 1)
        decision = decide(failure, lineage, entry, self.now_ms, self.jitter)
        return Delivery(lineage.deliveries, decision, failure, outputs, self.now_ms)

    @staticmethod
    def _bytes(codec: Codec, value: Any) -> bytes | None:  # noqa: ANN401
        return value if isinstance(value, bytes) else codec.encode(value)


@dataclass(frozen=True, slots=True)
class _Given:
    """A record as Kafka would hand it over."""

    source: str
    key_bytes: bytes | None
    value_bytes: bytes | None
    own_headers: HeaderList
    at_ms: int

    def __len__(self) -> int:
        return len(self.value_bytes or b"")

    def topic(self) -> str:
        return self.source

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 0

    def key(self) -> bytes | None:
        return self.key_bytes

    def value(self) -> bytes | None:
        return self.value_bytes

    def headers(self) -> HeaderList | None:
        return self.own_headers or None

    def set_headers(self, value: HeaderList) -> None:
        self.own_headers[:] = value

    def timestamp(self) -> tuple[int, int]:
        return 1, self.at_ms
