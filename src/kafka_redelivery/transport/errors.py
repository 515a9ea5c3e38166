"""Errors of transport. The class decides whether the caller continues, continues without a record, or stops."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

from kafka_redelivery.topology import exit_codes


class TransportError(Exception):
    """Base class of the errors of this package."""

    exit_code: ClassVar[int] = exit_codes.FAILED


def grant(right: str) -> str:
    """Return what to add to a message about a missing right, such as ``Read on topic orders``."""
    command = "`redelivery topology acls` prints the command"
    return f"; grant the right {right} ({command}), or remove the rule that denies it"


class RefusalCause(StrEnum):
    """Why the broker refuses a record."""

    TOO_LARGE = "too_large"
    FORBIDDEN = "forbidden"
    MISSING = "missing"
    """The topic or its partition does not exist."""

    OFFLINE = "offline"
    """The partition has no leader, or too few replicas in sync, because brokers with replicas of it do not run."""

    CLOCK = "clock"
    """The time at which the record is produced, which is that of this machine, is further from the broker's than the
    topic allows."""

    CONFIGURATION = "configuration"
    """The topic is one of the group, and its configuration, or a policy of the brokers, does not allow the record."""

    OTHER = "other"
    """The broker does not allow the record in a topic that a handler, or a person who sends it again, has chosen."""

    @property
    def outside(self) -> bool:
        """Whether the cause is outside the record, so that it decides nothing about it."""
        return self not in {RefusalCause.TOO_LARGE, RefusalCause.OTHER}


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record that the broker does not take at present: its index in the write, and the broker's reason."""

    index: int
    reason: str
    cause: RefusalCause

    def for_topic_of_group(self) -> RefusedRecord:
        """Return the refusal of a record that the group writes to a topic of its own.

        The topic has to take each record that its source had, but for its size. Kafka allows what has no key, unless
        the topic is compacted, and looks at no content.
        """
        return replace(self, cause=RefusalCause.CONFIGURATION) if self.cause is RefusalCause.OTHER else self


class WriteRefusedError(TransportError):
    """The broker refuses some records (too large), or all of some topics or partitions (no right, no topic, no leader).

    Nothing was committed. The caller decides about each record in ``refused`` and writes the others again. A cause
    outside the record decides about no record: the caller holds back what needs it until it can be written.
    """

    def __init__(self, refused: Sequence[RefusedRecord], *, others_written: bool = False) -> None:
        """Take the refusals.

        Args:
            refused: the refused records, at least one.
            others_written: whether all other records are written. Only a writer without transactions can say so.
        """
        super().__init__(f"the broker refused {len(refused)} records, the first because: {refused[0].reason}")
        self.refused = tuple(refused)
        self._others_written = others_written

    def judged(self, refused: Sequence[RefusedRecord]) -> WriteRefusedError:
        """Return this error with other causes of the same refusals."""
        return WriteRefusedError(refused, others_written=self._others_written)

    @property
    def outside(self) -> bool:
        """Whether every cause is outside the records; see :attr:`RefusalCause.outside`."""
        return all(each.cause.outside for each in self.refused)

    @property
    def rest_written(self) -> bool:
        """Whether all records are written that are not refused. Only a writer without transactions can say so."""
        return self._others_written

    @property
    def others_written(self) -> bool:
        """Whether all records are written, but for those that a cause outside them keeps back."""
        return self._others_written and self.outside


class WriteAbortedError(TransportError):
    """A write was aborted, or its outcome was unknown and a new producer has completed or aborted it.

    The caller reads the committed offsets again. They show whether to continue from them or to repeat the write.
    """

    def __init__(self, message: str, *, unconfirmed: Collection[int] | None = None, fenced: bool = False) -> None:
        super().__init__(message)
        self.unconfirmed = unconfirmed
        """Indexes of the records that the broker has not confirmed, if the writer has no transactions; else ``None``.

        ``None`` from such a writer means that it does not know.
        """

        self.fenced = fenced
        """Whether the writer has given its ``transactional.id`` up and goes on with another one."""

    @property
    def records_written(self) -> bool:
        """Whether all records are written, and only the offsets are not committed."""
        return self.unconfirmed is not None and not self.unconfirmed


class WriterChangedError(WriteAbortedError):
    """Nothing was written. The writer has other settings now, and has taken its ``transactional.id`` back to get them.

    Another process may have had the id meanwhile, so the caller reads what is written before it repeats the write.
    There are few such errors in a row: each brings the writer closer to the best compression and to one record in a
    batch.
    """


class MembershipOutdatedError(WriteAbortedError):
    """The group has rebalanced since the group metadata of the write was taken."""


class OffsetsForbiddenError(WriteAbortedError):
    """The user may not read a topic whose offsets were to be committed. To repeat the write would not help.

    The caller starts again from the committed offsets, and leaves the :attr:`unreadable` topics out of its next writes.
    It is empty if the brokers do not report rights.
    """

    def __init__(
        self, message: str, unreadable: Collection[str], *, unconfirmed: Collection[int] | None = None
    ) -> None:
        super().__init__(message, unconfirmed=unconfirmed)
        self.unreadable = unreadable


class WriterFencedError(TransportError):
    """Another producer with the same ``transactional.id`` has fenced this one, or another member this membership.

    Or Kafka has forgotten the id. If it has not, two processes share an instance name; give each its own. A writer that
    endures goes on with another ``transactional.id`` and raises :class:`WriteAbortedError` instead.
    """

    exit_code = exit_codes.HALTED

    def __init__(self, message: str, *, as_member: bool = False, expired: bool = False) -> None:
        super().__init__(message)
        self.expired = expired
        """Whether Kafka does not know the ``transactional.id`` any more as that of this producer.

        Nothing was written with it for the broker's ``transactional.id.expiration.ms``. It is open in no transaction.
        Whether another process has it since, Kafka does not say.
        """

        self.as_member = as_member
        """Whether the membership was fenced: another process joined the group with the same ``group.instance.id``."""


class ReaderError(TransportError):
    """The consumer cannot go on: not authorised, topic deleted, fatal client error. The caller stops."""

    exit_code = exit_codes.HALTED


class TopicForbiddenError(ReaderError):
    """The user of the ``kafka`` settings may not read a topic. Other topics can still be read."""

    def __init__(self, topic: str, detail: str, *, hidden: bool = False) -> None:
        super().__init__(f"topic {topic} may not be read ({detail}){grant(f'Read on topic {topic}')}")
        self.topic = topic
        self.hidden = hidden
        """Whether it may not even be described, so that Kafka does not say whether it exists."""


class Unfetchable(StrEnum):
    """How to let a partition go on that cannot be fetched, by cause."""

    DAMAGED = (
        "restore the partition from an intact replica, or, to go on without the damaged records, delete those up "
        "to the end of their batch with kafka-delete-records.sh and run: redelivery topology apply --accept-loss"
    )
    UNKNOWN_FORMAT = (
        "if a newer program has written the records, install a version of confluent-kafka that knows their format or "
        "compression; if not, the header of their batch is damaged: restore the partition from an intact replica"
    )
    BROKER = "look for the cause in the log of the broker that leads the partition, and repair its storage"


class PartitionUnfetchableError(ReaderError):
    """Kafka returns an error for one partition, or damaged records of it. Other partitions can still be fetched."""

    def __init__(self, topic: str, number: int, offset: int, detail: str, fix: Unfetchable) -> None:
        """Take what Kafka, or the client, says.

        Args:
            topic: the topic.
            number: the number of the partition.
            offset: the offset that was to be fetched: the one behind the last record that was fetched.
            detail: the error.
            fix: what can be done.
        """
        super().__init__(f"{topic}-{number} is halted: it cannot be fetched at offset {offset} ({detail}); {fix}")
        self.topic = topic
        self.number = number
        self.offset = offset


class ConsumerError(ReaderError):
    """What fails concerns no partition: Kafka refuses a request, for example to join a group that is full.

    The client tries again about once a second, unless the error is ``fatal``: then only another consumer can go on.
    """

    def __init__(self, message: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.fatal = fatal


class PositionDeletedError(ReaderError):
    """The offset that a partition had to be read from does not exist any more, so that partition is not fetched.

    The other partitions can be fetched further. Only :meth:`Reader.seek` makes the client fetch the partition again.
    """

    def __init__(self, topic: str, number: int, offset: int, detail: str, *, end: int | None = None) -> None:
        """Take the position and the client's error.

        Args:
            topic: the topic.
            number: the number of the partition.
            offset: the position.
            detail: the error.
            end: the end of the log, if the position was beyond it; else ``None``.
        """
        what = "does not exist any more" if end is None else f"was beyond the end of the log, which is {end} now"
        super().__init__(
            f"{topic}-{number}: the next offset {offset} {what} ({detail}); see `redelivery topology check`"
        )
        self.topic = topic
        self.number = number
        self.offset = offset
        self.end = end


class BrokerUnavailableError(TransportError):
    """No broker answered in time, or none to which these settings can connect. The message has the fix."""

    exit_code = exit_codes.BROKER_UNAVAILABLE


class ClientSettingsError(TransportError):
    """The ``kafka`` settings cannot be used: the client refuses them, or the file of the password cannot be read."""

    exit_code = exit_codes.CONFIGURATION
