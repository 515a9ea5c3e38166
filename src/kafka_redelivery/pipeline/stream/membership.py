"""The driver's membership of the consumer group.

Tasks commit offsets with the driver's membership. While it is valid, no other process has a partition of the sources. A
worker that joins causes a rebalance, after which Kafka refuses commits with the old membership. A second driver has the
same instance id and replaces the first one, whose tasks are fenced.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.process.clients import Instance, open_reader
from kafka_redelivery.pipeline.errors import PipelineRefusedError, StreamHaltedError
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.group_members import GroupMembers
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.errors import ReaderError, TransportError
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

NAME: Final = "spark"
"""The instance name of the driver; a group has at most one query."""

_POLL_S: Final = 0.2
_JOIN_S: Final = 120.0
"""Longer than any session timeout: a killed worker stays a member until its session ends."""

_ASSIGNMENT_S: Final = 15.0
"""The time a group may take to assign all partitions to its only member."""

_LOST_AFTER_S: Final = 2.0
"""After this time without all partitions, another member has them for good."""

_CLASSIC: Final = {"group.protocol": "classic"}
"""Only this protocol lets a second driver replace the first one without a wait for the session timeout."""


class StoppedJoiningError(StreamHaltedError):
    """A shutdown ended the wait for the membership."""


class Membership:
    """The membership. One thread keeps it (:meth:`run`), other threads use it."""

    def __init__(self, settings: Settings, wanted: frozenset[Partition], shutdown: Shutdown) -> None:
        """Join no group yet.

        Args:
            settings: the configuration.
            wanted: every partition of the sources and their ready topics.
            shutdown: whether to stop.
        """
        self._settings = settings
        self._shutdown = shutdown
        self._wanted = wanted
        self._owned: set[Partition] = set()
        self._unpaused: set[Partition] = set()
        self._member: object = None
        self._failure: Exception | None = None
        self._changed = threading.Condition()
        self._leaving = threading.Event()
        self._renewing = threading.Event()
        self._missing_since_s = 0.0
        """When a partition was first missing (monotonic seconds); 0 = none is missing."""

        self._tolerance_s = _ASSIGNMENT_S

    @property
    def joined(self) -> bool:
        """Whether all partitions are assigned to this query."""
        return self._member is not None and self._failure is None

    def member(self, *, than: object = None) -> object:
        """Return the current membership, which commits need.

        Args:
            than: an outdated membership; waits for a newer one.

        Raises:
            StreamHaltedError: another driver or workers have the group, or joining timed out.
            StoppedJoiningError: the shutdown was requested, and the running micro-batch, if any, was cancelled.
        """
        end_s = monotonic_s() + _JOIN_S
        with self._changed:
            while self._failure is None and (self._member is None or self._member == than):
                if self._shutdown.cancelled or (self._shutdown.requested and self._shutdown.idle):
                    raise StoppedJoiningError(f"stopped before group {self._settings.group} was joined")
                if monotonic_s() >= end_s:
                    raise StreamHaltedError(
                        f"could not join group {self._settings.group} within {_JOIN_S:.0f} s: stop its other members "
                        "(redelivery workers cannot run at the same time)"
                    )
                self._changed.wait(_POLL_S)
            if self._failure is not None:
                raise self._failure
            return self._member

    def renew(self) -> None:
        """Replace the membership soon. Kafka then refuses the commits of tasks that still have the current one."""
        with self._changed:
            self._renewing.set()
            self._member = None

    def check(self) -> None:
        """Check that the membership is still valid.

        Raises:
            StreamHaltedError, TransportError: it was lost, for example to another driver or to workers.
        """
        with self._changed:
            if self._failure is not None:
                raise self._failure

    def assigned(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """See :class:`RebalanceListener`. Starts at the end and pauses later: the driver reads no records."""
        self._unpaused.update(partitions)
        self._owned.update(self._unpaused)
        return dict.fromkeys(self._unpaused, _END)

    def revoked(self, partitions: Iterable[Partition]) -> None:
        """See :class:`RebalanceListener`."""
        self._owned.difference_update(partitions)
        self._unpaused.difference_update(partitions)
        with self._changed:
            self._member = None

    lost = revoked

    def run(self) -> None:
        """Stay a member until :meth:`leave` is called."""
        try:
            while not self._leaving.is_set():
                self._stay()
        except (TransportError, StreamHaltedError) as error:
            self._fail(error)
        except BaseException as error:
            self._fail(StreamHaltedError(f"the group's membership ended: {type(error).__name__}: {error}"))
            raise

    def leave(self) -> None:
        """Leave the group soon."""
        self._leaving.set()

    def _stay(self) -> None:
        """Join the group, and stay until the membership is to be renewed, or the group to be left."""
        reader = open_reader(self._settings, self._settings.group, Instance(NAME, stable=True), changes=dict(_CLASSIC))
        try:
            reader.subscribe(sorted({partition.topic for partition in self._wanted}), self)
            while not (self._leaving.is_set() or self._renewing.is_set()):
                reader.fetch(1, _POLL_S)
                self._check_assignment(reader)
            if self._leaving.is_set():
                reader.leave()  # a static member would keep everything until its session ends
        finally:
            reader.close()
        self.revoked(self._wanted)
        self._missing_since_s, self._tolerance_s = 0.0, _ASSIGNMENT_S
        self._renewing.clear()

    def _check_assignment(self, reader: GroupReader) -> None:
        if self._unpaused:
            reader.pause(self._unpaused)
            self._unpaused = set()
        if self._owned >= self._wanted:
            self._missing_since_s, self._tolerance_s = 0.0, _LOST_AFTER_S
            member = reader.group_metadata()
            with self._changed:
                if self._member != member and not self._renewing.is_set():
                    self._member = member
                    self._changed.notify_all()
        elif self._owned or self._missing_since_s:
            now_s = monotonic_s()
            self._missing_since_s = self._missing_since_s or now_s
            if now_s - self._missing_since_s > self._tolerance_s:
                others = sorted(self._wanted - self._owned)
                raise StreamHaltedError(
                    f"{others[0].topic}-{others[0].number} and {len(others) - 1} others are assigned to other members "
                    f"of group {self._settings.group}: a group is served by workers or by one query; stop the others"
                )

    def _fail(self, error: Exception) -> None:
        if isinstance(error, ReaderError) and "fenced" in str(error).lower():
            error = StreamHaltedError(
                f"another query of group {self._settings.group} was started and has taken over; this one ends"
            )
        with self._changed:
            self._failure = error
            self._changed.notify_all()


_END: Final = -1
"""Kafka's symbolic offset for the end of a partition."""


def refuse_members(settings: Settings) -> None:
    """Refuse to join a group with other members, which would have some of the partitions.

    Raises:
        PipelineRefusedError: the group has other members; names them.
        TransportError: the cluster does not answer.
    """
    others = sorted((GroupMembers(settings.kafka).owners(settings.group) or {}).keys() - {f"{settings.group}.{NAME}"})
    if others:
        raise PipelineRefusedError(
            f"group {settings.group} has {len(others)} member(s) already ({', '.join(others[:3])}): a group is served "
            "by workers or by one query; stop the workers first (one that was killed is a member until its session "
            "ends, by default after 45 s)"
        )


@contextmanager
def membership(settings: Settings, wanted: frozenset[Partition], shutdown: Shutdown) -> Iterator[Membership]:
    """Join the group, unless a shutdown is requested meanwhile, and leave it after the block.

    Raises:
        StreamHaltedError, PipelineRefusedError: the query cannot join.
    """
    member = Membership(settings, wanted, shutdown)
    thread = threading.Thread(target=member.run, name="membership", daemon=True)
    thread.start()
    try:
        try:
            member.member()
        except StoppedJoiningError:
            _log.info("stopped before group %s was joined", settings.group)
        except StreamHaltedError as error:
            raise PipelineRefusedError(str(error)) from None
        yield member
    finally:
        member.leave()
        thread.join(_ASSIGNMENT_S)
