"""The names that a handler uses: the record, its context, and the exceptions :class:`Reject` and :class:`Redeliver`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic

from kafka_redelivery.consumers.errors import AcknowledgementModeError
from kafka_redelivery.consumers.inbox import Identity, Once
from kafka_redelivery.topology.wire.headers import Headers

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    V = TypeVar("V", default=Any)  # so that `Record` alone stays a valid annotation
else:
    from typing import TypeVar  # before Python 3.13 it has no defaults, which only type checkers need

    V = TypeVar("V")


class Reject(Exception):  # noqa: N818 - the handler's decision, not an error
    """Raised by a handler to dead-letter the record without a redelivery, because no later delivery could succeed.

    The text of the exception becomes part of the dead letter's headers::

        if record.value["amount"] < 0:
            raise Reject("negative amount")
    """


class Redeliver(Exception):  # noqa: N818 - the handler's decision, not an error
    """Raised by a handler to have the record redelivered, after a delay that the handler may choose.

    The call counts as a delivery. After the last redelivery that the policy allows, the record is dead-lettered. A
    delay of the handler's own needs ``maximumHandlerDelay`` in the policy entry::

        if response.status == 429:
            raise Redeliver("rate limit", after=timedelta(seconds=30))
    """

    after: timedelta | None = None
    """See ``__init__``. The class attribute is for subclasses that do not call it."""

    def __init__(self, reason: str = "", *, after: timedelta | None = None) -> None:
        """Ask for a redelivery.

        Args:
            reason: for people. It becomes part of the dead letter if this was the last delivery.
            after: delay before the next delivery. It is rounded to milliseconds; a negative one counts as 0, and
                ``maximumHandlerDelay`` is the upper limit. ``None``, or a policy entry without
                ``maximumHandlerDelay``, means the delay of the policy.

        Raises:
            TypeError: ``after`` is neither a ``timedelta`` nor ``None``. A number would not say its unit.
        """
        if not (after is None or isinstance(after, timedelta)):
            raise TypeError(f"after must be a timedelta or None, not {after!r}; a number does not say its unit")
        super().__init__(reason)
        self.after = after


class Unavailable(Exception):  # noqa: N818 - a state of something else, not an error of the record
    """Raised by a handler because something that it depends on is away, so that no record could be handled now.

    It costs no attempt and moves the record nowhere: the record keeps its place, and the sources that declare the
    dependency wait until it is back::

        if response.status == 503:
            raise Unavailable("bank", retry_after=timedelta(seconds=30))
    """

    def __init__(
        self, dependency: str, reason: str = "", *, retry_after: timedelta | None = None, key: bool = False
    ) -> None:
        """Say what is away.

        Args:
            dependency: its name in the section ``dependencies``. The source has to declare it.
            reason: for people.
            retry_after: time before the next try; ``None`` = the pauses of the dependency.
            key: whether it is away only for records with the same key, such as one shop of many.

        Raises:
            TypeError: ``retry_after`` is neither a ``timedelta`` nor ``None``. A number would not say its unit.
        """
        if not (retry_after is None or isinstance(retry_after, timedelta)):
            raise TypeError(f"retry_after must be a timedelta or None, not {retry_after!r}")
        super().__init__(reason or f"{dependency} is away")
        self.dependency = dependency
        self.retry_after = retry_after
        self.key = key


@dataclass(slots=True)
class Record(Generic[V]):
    """One record, as a handler gets it. In ``Record[Order]`` the value is an ``Order``.

    ``topic``, ``partition``, ``offset`` and ``timestamp`` are those of the source record, and the same in every
    delivery. A handler can use :attr:`message_id` as an idempotency key.
    """

    topic: str
    partition: int
    offset: int
    key: Any
    """The key, decoded by the codec of the source."""

    value: V
    """The value, decoded by the codec of the source; ``None`` for a tombstone."""

    raw_key: bytes | None
    raw_value: bytes | None
    raw_headers: Headers
    """Names and values in order, with duplicate names. The headers that this project adds are left out."""

    timestamp_ms: int
    """Timestamp of the source record, in milliseconds since the epoch."""

    @property
    def headers(self) -> Mapping[str, bytes | None]:
        """The headers by name. If a name occurs several times, its last value."""
        return dict(self.raw_headers)

    @property
    def timestamp(self) -> datetime:
        """Timestamp of the source record, in UTC."""
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)

    @property
    def message_id(self) -> str:
        """``topic-partition@offset`` of the source record, for example ``orders-3@1207``."""
        return f"{self.topic}-{self.partition}@{self.offset}"

    def acknowledge(self) -> None:
        """Acknowledge records in the modes ``client`` and ``individual``; in the other modes do nothing, as in JMS.

        In mode ``individual`` this acknowledges the record. In mode ``client`` it acknowledges all records that this
        slot has been given so far. Acknowledged records are not redelivered, even if their handler fails afterwards.

        Any thread may call this, during the handler call or later.
        """


@dataclass(slots=True)
class Output:
    """A record that a handler emitted. It is written only if the handler succeeds."""

    topic: str
    value: Any
    key: Any = None
    headers: Headers = ()
    partition: int | None = None


@dataclass(slots=True)
class Context:
    """One delivery of a record: how often the record was delivered, and the records that the handler emits."""

    deliveries: int
    """Number of deliveries before this one."""

    outputs: list[Output]
    """Records emitted so far in this delivery."""

    record: Record = field(default=None, repr=False)  # type: ignore[arg-type] # a test may make a context without one
    """The record that is delivered."""

    group: str = field(default="", repr=False)
    """The consumer group that it is delivered to."""

    @property
    def attempt(self) -> int:
        """Number of this delivery; the first one is 1."""
        return self.deliveries + 1

    @property
    def redelivered(self) -> bool:
        """Whether the record was delivered before (``JMSRedelivered``)."""
        return self.deliveries > 0

    def acknowledge(self) -> None:
        """See :meth:`Record.acknowledge`."""

    def recover(self) -> None:
        """Redeliver all records that this slot was given and that are not acknowledged, including this one.

        This works in the modes ``client`` and ``individual``. Each record has had a delivery more, and is redelivered
        after the policy's delay, or dead-lettered after its last redelivery.

        Raises:
            AcknowledgementModeError: the mode is neither ``client`` nor ``individual``.
        """
        raise AcknowledgementModeError

    def once(self, connection: object, effect: str = "", *, commit: bool = True) -> Once:
        """Return a block that does an effect in a database once for this record, however often it is delivered.

        ::

            with Session(engine) as session, context.once(session) as first:
                if first:
                    session.add(Payment(order=record.value["order"]))

        The block is a transaction: it begins with a row that names the record, and commits at its end, or rolls both
        back if it raises. ``first`` is false if another delivery has committed the row. It raises if it has not been
        asked whether it is the first time. docs/inbox.md describes the table and what counts as the same record.

        Args:
            connection: of sqlite3, psycopg 3, SQLAlchemy or Django, or a session of SQLAlchemy; for an asynchronous one
                write ``async with``.
            effect: a name, if a handler has several blocks.
            commit: false if the row is part of a transaction of yours, which you commit behind the block.

        Raises:
            TypeError: the connection is of another kind; or, when the block is entered, of another database than
                PostgreSQL and SQLite.
        """
        record = self.record
        identity = Identity.of(
            self.group, effect, record.message_id, record.timestamp_ms, record.raw_key, record.raw_value
        )
        return Once(connection, identity, commit=commit)

    def send(
        self,
        topic: str,
        value: Any,  # noqa: ANN401 - whatever the topic's codec encodes
        *,
        key: Any = None,  # noqa: ANN401 - as the value
        headers: Mapping[str, bytes | None] | Headers = (),
        partition: int | None = None,
    ) -> None:
        """Emit a record, which is written together with the acknowledgement of this one.

        In mode ``transacted`` both are one transaction. If the handler fails, nothing that it emitted is written. The
        record is encoded after the handler has returned: if that fails, or the topic does not exist, the delivery has
        failed as if the handler had raised the error.

        Args:
            topic: name of the topic.
            value: encoded with the codec that ``outputs`` in the configuration names for the topic. Without one it
                must be bytes or ``None``.
            key: as the value.
            headers: names and values in order, or a mapping. A value is bytes or ``None``.
            partition: number of the partition; ``None`` = Kafka's default partitioner, which hashes the key as Java
                clients do.
        """
        pairs: Headers = ()
        if headers != pairs:
            pairs = tuple(headers.items()) if isinstance(headers, Mapping) else tuple(headers)
        self.outputs.append(Output(topic, value, key, pairs, partition))
