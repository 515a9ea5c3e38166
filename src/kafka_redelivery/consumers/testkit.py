"""Tests of handlers without Kafka.

A record goes through the same codec, handler call and :func:`decide` as in a worker. Only the clock is simulated, so
that a day of redeliveries takes no time.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, Self

from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.lane import Lane
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.event_loop import HandlerLoop
from kafka_redelivery.consumers.handlers.handler import Handler, as_handler, find_handler, load_exceptions, opened
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.routes import Route, codecs
from kafka_redelivery.serdes.codec import Codec, RawCodec
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.policy.decision import NOT_DELIVERED, Decision, Failure, Retry, decide
from kafka_redelivery.topology.policy.entry import DeadLetterStrategy, PolicyEntry, RetryPolicy
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.redrive.exported import ExportedLetter
from kafka_redelivery.topology.wire.headers import (
    EXPIRATION,
    HeaderList,
    read_lineage,
    redriven_headers,
    retry_headers,
    users_own,
)
from kafka_redelivery.topology.wire.progress import Progress
from kafka_redelivery.transport.protocols import Partition, ProducerRecord

_START_MS = 1_700_000_000_000
_MAX_DELIVERIES = 1000

DEFAULT_TOPIC = "source"
"""The source topic of a kit that names none."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery of a record: the decision after it, and the records that the handler emitted."""

    attempt: int
    """Number of deliveries so far, including this one. A record that did not reach the handler does not count."""

    decision: Decision
    """An :class:`Ack`, :class:`Retry`, :class:`DeadLetter`, :class:`Discard` or :class:`Halt`."""

    failure: Failure | None
    """Why the delivery failed; ``None`` = it succeeded."""

    outputs: tuple[ProducerRecord, ...]
    """The encoded records that a worker would write; empty if the delivery failed."""

    at_ms: int
    """Time of the delivery on the simulated clock, in milliseconds since the epoch."""


@dataclass(slots=True, weakref_slot=True)
class HandlerKit:
    """Delivers records to a handler without Kafka, on a simulated clock.

    A handler class is instantiated at the first delivery, and entered if it is a context manager, sync or async. The
    kit has one event loop for all deliveries. As a context manager it opens the handler at once, and closes it at its
    end.

    Example::

        def test_an_unreachable_bank_is_called_three_times():
            kit = HandlerKit(charge, policy=RedeliveryPolicy(maximum_redeliveries=2), value=JsonCodec())
            deliveries = kit.deliver({"amount": 5}, topic="orders")
            assert [delivery.attempt for delivery in deliveries] == [1, 2, 3]
            assert isinstance(deliveries[-1].decision, DeadLetter)
    """

    handler: Callable[..., Any]
    """The handler, sync or async, with the parameters ``(record)`` or ``(record, context)``, or its class.

    An object with ``__aenter__`` is entered, too, because only the kit can do that on its event loop. One that has only
    ``__enter__`` is the test's own to enter.
    """

    policy: RetryPolicy = field(default_factory=RedeliveryPolicy)
    dead_letters: DeadLetterStrategy = field(default_factory=DeadLetterStrategy)
    maximum_handler_delay: int | None = None
    """Longest delay in ms that the handler may choose with :class:`Redeliver`; ``None`` = ``after`` has no effect."""

    not_retryable: tuple[type[BaseException], ...] = ()
    """Exception classes that mean the same as :class:`Reject`."""

    value: Codec = field(default_factory=RawCodec)
    """Codec of the record's value."""

    key: Codec = field(default_factory=RawCodec)
    """Codec of the record's key."""

    outputs: dict[str, tuple[Codec, Codec]] = field(default_factory=dict)
    """Codecs of key and value by topic, for the records that the handler emits."""

    jitter: Iterable[float] = ()
    """Draws from [-1, 1) for a policy with collision avoidance. Each decision starts with the first draw."""

    now_ms: int = _START_MS
    """The simulated clock, in milliseconds since the epoch. It jumps to the due time of each redelivery."""

    topic: str = DEFAULT_TOPIC
    """The name of the source topic, where :meth:`deliver` is given none."""

    _resources: ExitStack = field(default_factory=ExitStack, init=False, repr=False)
    _loop: HandlerLoop = field(default_factory=partial(HandlerLoop, threaded=False), init=False, repr=False)
    _opened: object = field(default=None, init=False, repr=False)
    """What :attr:`handler` was after it was opened."""

    def __post_init__(self) -> None:
        self._resources.callback(self._loop.close)
        # A kit that is not used as a context manager is closed when it is garbage, which may be found at any time.
        weakref.finalize(self, self._loop.close_elsewhere).atexit = False

    @classmethod
    def from_config(
        cls,
        file: str | Path,
        *,
        source: str | None = None,
        handler: Callable[..., Any] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Self:
        """Create a kit with the handler, the codecs, the outputs and the policy of a configuration file.

        The jitter of a policy with collision avoidance is 0. A handler class is instantiated now, and entered if it is
        a context manager; use the kit in a ``with`` statement to exit it.

        Args:
            file: the configuration; its folder is added to ``sys.path``, as a worker does.
            source: the topic of the source; by default the only one.
            handler: called instead of the configured handler.
            environment: overrides settings and replaces ``${NAME}``; by default that of this process.

        Raises:
            OSError: the file cannot be read.
            ConfigurationError: it has faults.
            HandlerLoadError: the handler cannot be loaded, or is vectorized.
            SerdeError: a schema cannot be read.
            ValueError: the configuration has several sources, and none is named; or not the one that is named.
        """
        path = Path(file)
        base = path.absolute().parent
        variables = os.environ if environment is None else environment
        settings = load_settings(path.read_text(encoding="utf-8"), name=str(path), environment=variables)
        topics = [each.topic for each in settings.sources]
        if (source is None and len(topics) > 1) or source not in {None, *topics}:
            raise ValueError(f"name one of the sources with source=: {', '.join(topics)}")
        topic = topics[0] if source is None else source
        entry = settings.entry(topic)
        key, value = codecs(next(each for each in settings.sources if each.topic == topic), base)
        if str(base) not in sys.path:
            sys.path.append(str(base))
        section = settings.handler
        if section is None or (section.vectorized and handler is None):
            problem = "is missing" if section is None else "is vectorized"
            raise HandlerLoadError("in the configuration", problem, "give the function to test as handler=")
        kit = cls(
            find_handler(section.callable) if handler is None else handler,
            policy=entry.redelivery_policy,
            dead_letters=entry.dead_letter_strategy,
            maximum_handler_delay=entry.maximum_handler_delay,
            not_retryable=load_exceptions(section.not_retryable),
            value=value,
            key=key,
            outputs={output.topic: codecs(output, base) for output in settings.outputs},
            jitter=repeat(0.0) if entry.redelivery_policy.randomised else (),
            topic=topic,
        )
        if handler is None:
            kit._open(section.callable)
            as_handler(kit.handler, target=section.callable)
        return kit

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    def _open(self, target: str = "given") -> None:
        """Open the handler, unless it has been opened."""
        if self.handler is not self._opened:
            self.handler = self._opened = opened(self.handler, self._resources, self._loop, target=target)

    def deliver(
        self,
        value: Any,  # noqa: ANN401 - whatever the codec encodes
        *,
        key: Any = None,  # noqa: ANN401 - as the value
        headers: HeaderList | None = None,
        topic: str | None = None,
    ) -> list[Delivery]:
        """Deliver a record again and again until it is acknowledged, dead-lettered or discarded, or halts the worker.

        Args:
            value: value of the record. The codec encodes it, unless it is bytes, which may be undecodable.
            key: as the value.
            headers: headers of the record.
            topic: name of the source topic; by default that of the kit.

        Returns:
            All deliveries in order. The last one has a final decision, unless the policy has no limit: then the kit
            stops after 1,000 deliveries.

        Raises:
            HandlerLoadError: the handler takes neither ``(record)`` nor ``(record, context)``, is a generator, or
                cannot be opened.
            EncodeError: the codec cannot encode the key or the value.
        """
        topic = self.topic if topic is None else topic
        record = _FetchedRecord(
            topic, self._bytes(self.key, key), self._bytes(self.value, value), headers or [], self.now_ms
        )
        return self._deliver(record, Lineage(topic, 0, 0, self.now_ms), headers or [], redelivered=False)

    def redeliver(self, letter: str | bytes | Mapping[str, Any]) -> list[Delivery]:
        """Deliver a dead letter as a worker gets it after `redelivery dlq redrive`, until its fate is decided.

        The handler gets the origin of the letter, and the user's headers. Attempts begin anew, and the letter does not
        expire. The codecs and the policy are those of the kit.

        Args:
            letter: a line of `redelivery dlq export`, or the object that it contains.

        Returns:
            As :meth:`deliver`.

        Raises:
            ExportedLetterError: the letter is no such line.
            HeaderError: its headers do not say where it comes from, so `redrive` refuses it, too.
            ValueError: it comes from another source than the one of the kit.
            HandlerLoadError: as :meth:`deliver`.
        """
        exported = ExportedLetter.parse(letter)
        lineage = read_lineage(exported.headers)._replace(deliveries=0, expiration_ms=0, redrive="")
        if self.topic not in {DEFAULT_TOPIC, lineage.address}:
            raise ValueError(f"{exported.id} comes from {lineage.address}; the kit is of the source {self.topic}")
        headers = redriven_headers(exported.headers, lineage, "kit")
        record = _FetchedRecord(lineage.address, exported.key, exported.value, headers, self.now_ms)
        user = [pair for pair in users_own(exported.headers) if pair[0] != EXPIRATION]
        return self._deliver(record, lineage, user, redelivered=True)

    def _deliver(
        self, record: _FetchedRecord, lineage: Lineage, user: HeaderList, *, redelivered: bool
    ) -> list[Delivery]:
        self._open()
        handler = as_handler(self.handler, self.not_retryable)
        deliveries = []
        for _ in range(_MAX_DELIVERIES):
            delivery = self._deliver_once(handler, record, lineage, redelivered=redelivered)
            deliveries.append(delivery)
            decision = delivery.decision
            if not isinstance(decision, Retry):
                break
            lineage, redelivered = lineage.delivered(lineage.deliveries + 1), True
            headers = retry_headers(lineage, "kit", user, decision)
            record = _FetchedRecord(lineage.address, record.key(), record.value(), headers, self.now_ms)
            self.now_ms = decision.due_ms
        return deliveries

    def _deliver_once(
        self, handler: Handler, record: _FetchedRecord, lineage: Lineage, *, redelivered: bool
    ) -> Delivery:
        entry = PolicyEntry(
            redelivery_policy=self.policy,
            dead_letter_strategy=self.dead_letters,
            maximum_handler_delay=self.maximum_handler_delay,
        )
        topic = lineage.address
        route = Route(topic, f"kit.ready.{topic}", f"DLQ.{topic}", entry, self.key, self.value)
        assigned = AssignedPartition(Partition(topic, 0), route, redelivered, Progress(0))
        item = WorkItem(Lane(assigned, exclusive=True), [record])
        processor = Processor(handler, self.outputs, lambda: self.now_ms, None)
        if handler.asynchronous:
            self._loop.run(processor.run_async(item))
        else:
            processor.run(item)
        if item.held:
            raise RuntimeError(f"a worker would wait and deliver the record again, uncounted: {item.held}")
        failure = item.failures[0][1] if item.failures else None
        outputs = tuple(item.outputs[0][1]) if item.outputs else ()
        if failure is None or failure.kind not in NOT_DELIVERED:
            lineage = lineage.delivered(lineage.deliveries + 1)
        decision = decide(failure, lineage, entry, self.now_ms, self.jitter)
        return Delivery(lineage.deliveries, decision, failure, outputs, self.now_ms)

    @staticmethod
    def _bytes(codec: Codec, value: Any) -> bytes | None:  # noqa: ANN401
        return value if isinstance(value, bytes) else codec.encode(value)


@dataclass(frozen=True, slots=True)
class _FetchedRecord:
    """A record as the Kafka client returns it."""

    source: str
    key_bytes: bytes | None
    value_bytes: bytes | None
    record_headers: HeaderList
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
        return self.record_headers or None

    def set_headers(self, value: HeaderList) -> None:
        self.record_headers[:] = value

    def timestamp(self) -> tuple[int, int]:
        return 1, self.at_ms
