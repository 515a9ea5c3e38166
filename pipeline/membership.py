"""The driver as a member of the consumer group: what makes the group's offsets the query's own.

Tasks commit with the driver's membership. While it lasts nobody else can have a partition of the sources: a worker that
joins makes the group change, after which Kafka refuses what tasks still commit. A second driver takes the first one's
place, since it bears the same name; the first one's tasks are refused from then on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from consumers.clients import Instance, reader_of
from consumers.clock import monotonic_s
from pipeline.errors import StreamHaltedError, StreamRefusedError
from topology.settings import Settings
from transport.errors import ReaderError, TransportError
from transport.owners import Owners
from transport.protocols import Partition
from transport.reader import Reader

_log = logging.getLogger(__name__)

NAME: Final = "spark"
"""Of the member: one query for each group."""

_POLL_S: Final = 0.2
_JOIN_S: Final = 120.0
"""Longer than any session: a worker that was killed is a member until its own ends."""

_SETTLE_S: Final = 15.0
"""So long a group may take to give everything to its only member."""

_LOST_S: Final = 2.0
"""After that what another member has got is not coming back by itself."""

_CLASSIC: Final = {"group.protocol": "classic"}
"""Only there a second driver can take the first one's place at once."""


class Membership:
    """Kept up by a thread of its own; asked by others."""

    def __init__(self, settings: Settings, wanted: frozenset[Partition]) -> None:
        """Prepare.

        Args:
            settings: the configuration.
            wanted: every partition of the sources and their ready topics.
        """
        self._settings = settings
        self._wanted = wanted
        self._owned: set[Partition] = set()
        self._fresh: set[Partition] = set()
        self._member: object = None
        self._failure: Exception | None = None
        self._changed = threading.Condition()
        self._ended = threading.Event()
        self._since_s = 0.0
        """Since when something is missing; 0 = nothing is."""

        self._patience_s = _SETTLE_S

    @property
    def joined(self) -> bool:
        """Whether every partition is this query's now."""
        return self._member is not None

    def member(self, *, than: object = None) -> object:
        """The membership as it is now, to commit with.

        Args:
            than: one that turned out to be outdated; waited for until there is another.

        Raises:
            StreamHaltedError: it was lost to another driver or to workers, or cannot be had.
        """
        end_s = monotonic_s() + _JOIN_S
        with self._changed:
            while self._failure is None and (self._member is None or self._member == than):
                if not self._changed.wait(end_s - monotonic_s()):
                    raise StreamHaltedError(
                        f"the group {self._settings.group} does not let this query in, after {_JOIN_S:.0f} s: "
                        "see to its other members (redelivery workers are not to run beside it)"
                    )
            if self._failure is not None:
                raise self._failure
            return self._member

    def check(self) -> None:
        """See whether it still stands.

        Raises:
            StreamHaltedError, TransportError: it was lost to another driver or to workers.
        """
        with self._changed:
            if self._failure is not None:
                raise self._failure

    def assigned(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """See :class:`transport.protocols.Listener`; nothing is read by it."""
        self._fresh.update(partitions)
        self._owned.update(self._fresh)
        return dict.fromkeys(self._fresh, _END)

    def revoked(self, partitions: Iterable[Partition]) -> None:
        """See :class:`transport.protocols.Listener`."""
        self._owned.difference_update(partitions)
        self._fresh.difference_update(partitions)
        with self._changed:
            self._member = None

    lost = revoked

    def run(self) -> None:
        """Be a member until told to leave."""
        try:
            reader = reader_of(
                self._settings, self._settings.group, Instance(NAME, stable=True), adjusted=dict(_CLASSIC)
            )
            try:
                reader.subscribe(sorted({place.topic for place in self._wanted}), self)
                while not self._ended.is_set():
                    reader.fetch(1, _POLL_S)
                    self._look(reader)
                reader.leave()  # a static member would keep everything until its session ends
            finally:
                reader.close()
        except (TransportError, StreamHaltedError) as error:
            self._fail(error)
        except BaseException as error:
            self._fail(StreamHaltedError(f"the group's membership ended: {type(error).__name__}: {error}"))
            raise

    def end(self) -> None:
        """Leave."""
        self._ended.set()

    def _look(self, reader: Reader) -> None:
        if self._fresh:
            reader.pause(self._fresh)
            self._fresh = set()
        if self._owned >= self._wanted:
            self._since_s, self._patience_s = 0.0, _LOST_S
            member = reader.group_metadata()
            with self._changed:
                if self._member != member:
                    self._member = member
                    self._changed.notify_all()
        elif self._owned or self._since_s:
            now_s = monotonic_s()
            self._since_s = self._since_s or now_s
            if now_s - self._since_s > self._patience_s:
                others = sorted(self._wanted - self._owned)
                raise StreamHaltedError(
                    f"{others[0].topic}-{others[0].number} and {len(others) - 1} others are with other members "
                    f"of group {self._settings.group}: a group is served by workers or by one query; end the others"
                )

    def _fail(self, error: Exception) -> None:
        if isinstance(error, ReaderError) and "fenced" in str(error).lower():
            error = StreamHaltedError(
                f"another query of group {self._settings.group} has been started and has taken over; this one ends"
            )
        with self._changed:
            self._failure = error
            self._changed.notify_all()


_END: Final = -1
"""Kafka's own number for a partition's end."""


def refuse_members(settings: Settings) -> None:
    """Refuse to join a group that workers are in: each would have a part of it.

    Raises:
        StreamRefusedError: names them and the mend.
        TransportError: the cluster does not answer.
    """
    others = sorted(Owners(settings.kafka).names(settings.group) - {f"{settings.group}.{NAME}"})
    if others:
        raise StreamRefusedError(
            f"group {settings.group} has {len(others)} member(s) already ({', '.join(others[:3])}): a group is served "
            "by workers or by one query; stop the workers first (one that was killed is a member until its session "
            "ends, by default after 45 s)"
        )


@contextmanager
def membership(settings: Settings, wanted: frozenset[Partition]) -> Iterator[Membership]:
    """Join the group, and leave it after the block.

    Raises:
        StreamHaltedError, StreamRefusedError: it cannot be joined.
    """
    found = Membership(settings, wanted)
    thread = threading.Thread(target=found.run, name="membership", daemon=True)
    thread.start()
    try:
        try:
            found.member()
        except StreamHaltedError as error:
            raise StreamRefusedError(str(error)) from None
        yield found
    finally:
        found.end()
        thread.join(_SETTLE_S)
