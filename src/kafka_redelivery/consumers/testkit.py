"""Tests of handlers without Kafka.

A record goes through the same codec, handler call and :func:`decide` as in a worker. Only the clock is simulated, so
that a day of redeliveries takes no time.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.lane import Lane
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.batch_processor import processor_of
from kafka_redelivery.consumers.handlers.dependencies import Declared, Dependencies
from kafka_redelivery.consumers.handlers.event_loop import HandlerLoop
from kafka_redelivery.consumers.handlers.handler import (
    NOTHING,
    Handler,
    as_handler,
    find_handler,
    load_exceptions,
    opened,
)
from kafka_redelivery.consumers.handlers.values import Takes
from kafka_redelivery.consumers.routes import Route, codecs
from kafka_redelivery.serdes.codec import Codec, RawCodec
from kafka_redelivery.serdes.framing import with_schema_ids
from kafka_redelivery.serdes.schemas import LocalSchemas, schema_in_file
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.config.settings import CodecSection, SerdeSection, Settings
from kafka_redelivery.topology.policy.decision import NOT_DELIVERED, Decision, Failure, FailureKind, Retry, decide
from kafka_redelivery.topology.policy.entry import DeadLetterStrategy, PolicyEntry, RetryPolicy
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.redrive.exported import ExportedLetter
from kafka_redelivery.topology.wire.headers import (
    EXPIRATION,
    HeaderList,
    Headers,
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


class Wait(NamedTuple):
    """The record keeps its place, uncounted, until something is back that its handler depends on."""

    dependency: str
    key_only: bool = False
    """Whether only records of the same key wait."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery of a record: the decision after it, and the records that the handler emitted."""

    attempt: int
    """Number of deliveries so far, including this one. A record that did not reach the handler does not count."""

    decision: Decision | Wait
    """An :class:`Ack`, :class:`Retry`, :class:`DeadLetter`, :class:`Discard`, :class:`Halt` or :class:`Wait`."""

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
    """The handler, sync or async, with the parameters ``(record)``, ``(record, context)`` or ``(batch)``, or its class.

    An object with ``__aenter__`` is entered, too, because only the kit can do that on its event loop. One that has only
    ``__enter__`` is the test's own to enter.
    """

    policy: RetryPolicy = field(default_factory=RedeliveryPolicy)
    dead_letters: DeadLetterStrategy = field(default_factory=DeadLetterStrategy)
    maximum_handler_delay: int | None = None
    """Longest delay in ms that the handler may choose with :class:`Redeliver`; ``None`` = ``after`` has no effect."""

    not_retryable: tuple[type[BaseException], ...] = ()
    """Exception classes that mean the same as :class:`Reject`."""

    dependencies: Mapping[str, Sequence[type[BaseException]]] = field(default_factory=dict)
    """What may be away, each with the exception classes that mean so. A delivery then ends with :class:`Wait`."""

    value: Codec = field(default_factory=RawCodec)
    """Codec of the record's value."""

    key: Codec = field(default_factory=RawCodec)
    """Codec of the record's key."""

    value_type: object = None
    """Type of the value, as ``handler.value`` in the configuration; ``None`` = that of the handler's annotation."""

    outputs: dict[str, tuple[Codec, Codec]] = field(default_factory=dict)
    """Codecs of key and value by topic, for the records that the handler emits."""

    jitter: Iterable[float] = ()
    """Draws from [-1, 1) for a policy with collision avoidance. Each decision starts with the first draw."""

    now_ms: int = _START_MS
    """The simulated clock, in milliseconds since the epoch. It jumps to the due time of each redelivery."""

    topic: str = DEFAULT_TOPIC
    """The name of the source topic, where :meth:`deliver` is given none."""

    batch: bool = False
    """Whether the handler takes a :class:`Batch` although its parameter has no annotation that says so."""

    deadline: timedelta | None = None
    """Longest time for one call of an asynchronous handler, in real time; ``None`` = no limit.

    The kit does not watch synchronous calls, which a worker does from another thread or process.
    """

    group: str = "kit"
    """The consumer group, which :meth:`Context.once` takes for one part of a record's identity."""

    _resources: ExitStack = field(default_factory=ExitStack, init=False, repr=False)
    _loop: HandlerLoop = field(default_factory=partial(HandlerLoop, threaded=False), init=False, repr=False)
    _of_deadline: str = field(default="", init=False, repr=False)
    """The dependency that is away if a call misses its deadline; empty if that fails its record."""

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
        schemas: Mapping[int, str | Path] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Self:
        """Create a kit with the handler, the codecs, the outputs and the policy of a source in a configuration file.

        The jitter of a policy with collision avoidance is 0. A handler class is instantiated now, and entered if it is
        a context manager; use the kit in a ``with`` statement to exit it.

        Args:
            file: the configuration; its folder is added to ``sys.path``, as a worker does.
            source: the topic of the source; by default the only one.
            handler: called instead of the configured handler.
            schemas: the file of each schema id (``.avsc``, a descriptor set ``.desc``, a JSON Schema ``.json``), used
                in place of every schema registry; a relative path starts in the folder of the configuration. A source
                encodes what :meth:`deliver` gets if there is one.
            environment: overrides settings and replaces ``${NAME}``; by default that of this process.

        Raises:
            OSError: the file cannot be read.
            ConfigurationError: it has faults.
            HandlerLoadError: the handler cannot be loaded, or is vectorized.
            SerdeError: a schema cannot be read.
            ValueError: the configuration has several sources, and none is named; or not the one that is named; or the
                mode ``client`` or ``individual``, in which a record may be left without an outcome.
        """
        path = Path(file)
        base = path.absolute().parent
        variables = os.environ if environment is None else environment
        settings = load_settings(path.read_text(encoding="utf-8"), name=str(path), environment=variables)
        if str(base) not in sys.path:
            sys.path.append(str(base))
        return cls.from_settings(settings, base, source=source, handler=handler, schemas=schemas)

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        base: Path,
        *,
        given: Mapping[str, object] = NOTHING,
        source: str | None = None,
        handler: Callable[..., Any] | None = None,
        schemas: Mapping[int, str | Path] | None = None,
    ) -> Self:
        """Create a kit of settings, see :meth:`from_config`.

        Args:
            settings: the configuration.
            base: the folder in which relative paths start.
            given: handlers and classes by the names that the settings have; all others are imported.
            source: as of :meth:`from_config`.
            handler: as of :meth:`from_config`.
            schemas: as of :meth:`from_config`.

        Raises:
            HandlerLoadError, SerdeError, ValueError: as of :meth:`from_config`.
        """
        if schemas is not None:
            settings = without_registry(settings, schemas, base)
        topics = [each.topic for each in settings.sources]
        if (source is None and len(topics) > 1) or source not in {None, *topics}:
            raise ValueError(f"name one of the sources with source=: {', '.join(topics)}")
        if settings.mode.by_handler:
            fix = "test it with the fixture redelivery_running, or in mode: transacted"
            raise ValueError(f"a kit cannot leave a record unacknowledged, as mode: {settings.mode} can; {fix}")
        topic = topics[0] if source is None else source
        entry = settings.entry(topic)
        key, value = codecs(next(each for each in settings.sources if each.topic == topic), base)
        section = settings.handler_of(topic)
        if section is None or (section.vectorized and handler is None):
            problem = "is missing" if section is None else "is vectorized"
            raise HandlerLoadError("in the configuration", problem, "give the function to test as handler=")
        kit = cls(
            find_handler(section.callable, given) if handler is None else handler,
            policy=entry.redelivery_policy,
            dead_letters=entry.dead_letter_strategy,
            maximum_handler_delay=entry.maximum_handler_delay,
            not_retryable=load_exceptions(section.not_retryable, "handler.notRetryable", given),
            dependencies={
                name: load_exceptions(each.unavailable, f"dependencies.{name}.unavailable", given)
                for name, each in section.dependencies
            },
            value=value,
            key=key,
            value_type=None if section.value is None else find_handler(section.value, given),
            outputs={output.topic: codecs(output, base) for output in settings.outputs},
            jitter=repeat(0.0) if entry.redelivery_policy.randomised else (),
            topic=topic,
            batch=section.batch is not None,
            deadline=section.deadline,
            group=settings.group,
        )
        kit._of_deadline = Declared.by(section).of_deadline
        if handler is None:
            kit._open(section.callable)
            as_handler(kit.handler, target=section.callable, value=kit.value_type, takes=kit._takes)
        return kit

    @property
    def _takes(self) -> Takes:
        return "batch" if self.batch else "record"

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
            HandlerLoadError: the handler has other parameters than a handler, takes a value of an unsupported type, is
                a generator, or cannot be opened.
            EncodeError: the codec cannot encode the key or the value.
        """
        return self.deliver_batch([value], keys=[key], headers=headers, topic=topic)[0]

    def deliver_batch(
        self,
        values: Sequence[Any],
        *,
        keys: Sequence[Any] | None = None,
        headers: HeaderList | None = None,
        topic: str | None = None,
    ) -> list[list[Delivery]]:
        """Deliver records together to a batch handler, until each is acknowledged, dead-lettered or discarded.

        Records that are due again at the same time come in one batch, as from a worker. If a call raises, the kit
        handles its records again as batches of one, as a worker does. A handler of single records gets one by one.

        Args:
            values: values of the records, see :meth:`deliver`.
            keys: their keys; ``None`` = no record has one.
            headers: headers of each record.
            topic: name of the source topic; by default that of the kit.

        Returns:
            The deliveries of each record, as :meth:`deliver` returns them.

        Raises:
            HandlerLoadError, EncodeError: as :meth:`deliver`.
            ValueError: there are not as many keys as values.
        """
        topic, user = self.topic if topic is None else topic, headers or []
        pairs = zip([None] * len(values) if keys is None else keys, values, strict=True)
        records = [self._fetched(topic, key, value, user, number) for number, (key, value) in enumerate(pairs)]
        return self._deliver(
            [
                _Awaiting(record, Lineage(topic, 0, record.number, self.now_ms), user, redelivered=False)
                for record in records
            ]
        )

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
        headers = redriven_headers(exported.headers, lineage, self.group)
        record = _FetchedRecord(lineage.address, exported.key, exported.value, headers, self.now_ms)
        user = [pair for pair in users_own(exported.headers) if pair[0] != EXPIRATION]
        return self._deliver([_Awaiting(record, lineage, user, redelivered=True)])[0]

    def _deliver(self, records: list[_Awaiting]) -> list[list[Delivery]]:
        self._open()
        handler = as_handler(self.handler, self.not_retryable, value=self.value_type, takes=self._takes)
        listed = [(each, name) for name, classes in self.dependencies.items() for each in classes]
        handler = replace(
            handler, dependencies=Dependencies(dict.fromkeys(self.dependencies, 0), listed, self._of_deadline)
        )
        due = records
        while due:
            self.now_ms = max(self.now_ms, due[0].due_ms)
            self._deliver_once(handler, due)
            awaiting = [each for each in records if not each.ended]
            first_ms = min((each.due_ms for each in awaiting), default=0)
            due = [each for each in awaiting if each.due_ms == first_ms]
        return [each.deliveries for each in records]

    def _deliver_once(self, handler: Handler, records: list[_Awaiting]) -> None:
        """Deliver records that are due at the same time. Either all of them are redelivered, or none."""
        entry = PolicyEntry(
            redelivery_policy=self.policy,
            dead_letter_strategy=self.dead_letters,
            maximum_handler_delay=self.maximum_handler_delay,
        )
        topic, redelivered = records[0].lineage.address, records[0].redelivered
        route = Route(topic, f"kit.ready.{topic}", f"DLQ.{topic}", entry, self.key, self.value, group=self.group)
        assigned = AssignedPartition(Partition(topic, 0), route, redelivered, Progress(0))
        item = WorkItem(Lane(assigned, exclusive=True), [each.record for each in records], batch=handler.batch)
        processor = processor_of(handler, self.outputs, lambda: self.now_ms, self.deadline)
        while item.position < len(item.messages) and not item.held:  # a slot gives an item back after its time slice
            if handler.asynchronous:
                self._loop.run(processor.run_async(item))
            else:
                processor.run(item)
        if item.held and item.outage is None:
            raise RuntimeError(f"a worker would wait and deliver the record again, uncounted: {item.held}")
        failures, outputs = dict(item.failures), dict(item.outputs)
        if item.outage is not None:
            failures |= dict.fromkeys(range(item.position, len(records)), item.outage.failure)
        for index, each in enumerate(records):
            failure = failures.get(index)
            lineage = each.lineage
            if failure is not None and failure.kind is FailureKind.UNAVAILABLE:
                wait = Wait(failure.dependency, failure.key_only)
                each.deliveries.append(Delivery(lineage.deliveries, wait, failure, (), self.now_ms))
                continue
            if failure is None or failure.kind not in NOT_DELIVERED:
                lineage = lineage.delivered(lineage.deliveries + 1)
            decision = decide(failure, lineage, entry, self.now_ms, self.jitter)
            delivery = Delivery(lineage.deliveries, decision, failure, tuple(outputs.get(index, ())), self.now_ms)
            each.deliveries.append(delivery)
            if isinstance(decision, Retry):
                each.await_retry(decision, self.now_ms, self.group)

    def _fetched(self, topic: str, key: Any, value: Any, user: HeaderList, number: int) -> _FetchedRecord:  # noqa: ANN401
        return _FetchedRecord(topic, *as_written((self.key, self.value), key, value, user), self.now_ms, number)


def as_written(
    codecs: tuple[Codec, Codec],
    key: Any,  # noqa: ANN401 - whatever the codec encodes
    value: Any,  # noqa: ANN401 - as the key
    headers: Headers,
) -> tuple[bytes | None, bytes | None, HeaderList]:
    """Return key, value and headers as a producer writes them. Bytes are written as they are, without a schema id."""
    ours = [
        None if isinstance(each, bytes) else codec.encode(each)
        for codec, each in zip(codecs, (key, value), strict=True)
    ]
    written = [each if isinstance(each, bytes) else own for own, each in zip(ours, (key, value), strict=True)]
    return written[0], written[1], list(with_schema_ids(codecs, ours[0], ours[1], headers))


@dataclass(slots=True)
class _Awaiting:
    """A record that the kit delivers until its fate is decided."""

    record: _FetchedRecord
    lineage: Lineage
    user: HeaderList
    """The headers of the user."""

    redelivered: bool
    deliveries: list[Delivery] = field(default_factory=list)
    due_ms: int = 0

    @property
    def ended(self) -> bool:
        """Whether the record is not delivered again."""
        return len(self.deliveries) >= _MAX_DELIVERIES or not isinstance(self.deliveries[-1].decision, Retry)

    def await_retry(self, decision: Retry, now_ms: int, group: str) -> None:
        """Become the retry record that a worker would write and the scheduler release."""
        self.lineage, self.redelivered = self.lineage.delivered(self.lineage.deliveries + 1), True
        headers = retry_headers(self.lineage, group, self.user, decision)
        before = self.record
        self.record = _FetchedRecord(
            self.lineage.address, before.key_bytes, before.value_bytes, headers, now_ms, before.number
        )
        self.due_ms = decision.due_ms


@dataclass(frozen=True, slots=True)
class _FetchedRecord:
    source: str
    key_bytes: bytes | None
    value_bytes: bytes | None
    record_headers: HeaderList
    at_ms: int
    number: int = 0

    def __len__(self) -> int:
        return len(self.value_bytes or b"")

    def topic(self) -> str:
        return self.source

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.number

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


_Topic = TypeVar("_Topic", bound=CodecSection)


def without_registry(settings: Settings, schemas: Mapping[int, str | Path], base: Path) -> Settings:
    """Return the settings with schemas in files in place of every schema registry.

    Args:
        settings: the configuration.
        schemas: the file of each id: ``.avsc``, a descriptor set ``.desc``, or a JSON Schema ``.json``.
        base: the folder in which relative paths start.

    Raises:
        SchemaError: a file cannot be read, or none has the schema that a topic is written with.
    """
    files = {number: str(base / path) for number, path in schemas.items()}
    avro = LocalSchemas({number: Path(path) for number, path in _files_of("avro", files).items()})

    def local(section: SerdeSection, *, writes: bool) -> SerdeSection:
        if not section.registry:
            return section
        own, write_id = _files_of(section.format, files), section.write_id
        if write_id is None and section.subject is not None:
            reader = None if section.reader is None else schema_in_file(base / section.reader)
            write_id = max(own, default=None) if reader is None else avro.id_for(section.subject, reader)  # the latest
        if write_id is None and not writes and len(own) == 1:
            (write_id,) = own  # only a test writes to a source, so no setting says with which schema
        update = {"registry": {}, "subject": None, "schemas": own, "write_id": write_id}
        return section.model_copy(update=update)

    def with_files(section: _Topic, *, writes: bool) -> _Topic:
        update = {"key": local(section.key, writes=writes), "value": local(section.value, writes=writes)}
        return section.model_copy(update=update)

    sources = tuple(with_files(each, writes=False) for each in settings.sources)
    outputs = tuple(with_files(each, writes=True) for each in settings.outputs)
    return settings.model_copy(update={"sources": sources, "outputs": outputs})


_SUFFIXES = {".avsc": "avro", ".desc": "protobuf", ".json": "jsonschema"}


def _files_of(format_: str, files: Mapping[int, str]) -> dict[int, str]:
    """Return the schemas of a format: those with its suffix, and those with another one than these."""
    return {number: path for number, path in files.items() if _SUFFIXES.get(Path(path).suffix, format_) == format_}
