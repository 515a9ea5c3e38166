"""The partitions a worker owns, and where each of them stands."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence

from consumers.processor import fresh_lineage
from consumers.routes import Route
from consumers.unit import Assigned
from topology.errors import HeaderError
from topology.headers import read_lineage
from topology.lineage import Lineage
from topology.progress import Checkpoint, Progress
from transport.errors import MissingOffsetError
from transport.message_headers import UnreadableHeadersError, headers_of
from transport.protocols import Message, Partition, Source

_log = logging.getLogger(__name__)


class Assignment:
    """Owned by the polling thread."""

    def __init__(
        self,
        routes: Sequence[Route],
        source_start: str,
        reader: Source,
        *,
        author: int | None = None,
        most_in_place: int = 0,
    ) -> None:
        """Nothing is assigned yet.

        Args:
            routes: one for each source.
            reader: asked for commits and bounds.
            source_start: ``earliest`` or ``latest``, where a source without a committed offset begins.
            author: the number of this process, if it notes what it hands out; see :class:`topology.progress.Progress`.
            most_in_place: so many records of a partition may wait in place.
        """
        self._author = author
        self._most_in_place = most_in_place
        self._routes = {route.source: (route, False) for route in routes}
        self._routes |= {route.ready: (route, True) for route in routes}
        self._from_start = source_start == "earliest"
        self._owned: dict[Partition, Assigned] = {}
        self._halted: set[Partition] = set()
        self._reader = reader
        self.deferred: dict[Partition, int] = {}
        """Partitions to be read again from an offset that was fetched, but has to wait for the watermark."""

    @property
    def topics(self) -> list[str]:
        """Everything to subscribe to: the sources and their ready topics."""
        return list(self._routes)

    @property
    def halted(self) -> frozenset[Partition]:
        """Those that are not read until a restart."""
        return frozenset(self._halted)

    def all(self) -> list[Assigned]:
        """Every partition owned."""
        return list(self._owned.values())

    def places(self) -> Iterator[tuple[Partition, bool]]:
        """Every partition owned, and whether it holds redeliveries."""
        return ((place, assigned.redelivered) for place, assigned in self._owned.items())

    def find(self, partitions: Iterable[Partition]) -> list[Assigned]:
        """Those of them that are owned."""
        return [self._owned[partition] for partition in partitions if partition in self._owned]

    def dirty(self) -> list[Assigned]:
        """Partitions with a position that is not committed, whatever else happens in them."""
        return [assigned for assigned in self._owned.values() if assigned.dirty]

    def open(self, partitions: Iterable[Partition]) -> list[Assigned]:
        """Take partitions over, each where its commit says.

        Raises:
            MissingOffsetError: an internal partition has no offset.
            ProgressError: a commit carries metadata that is not ours.
        """
        places = list(partitions)
        committed = self._reader.committed(places)
        opened = [self._open(place, committed[place]) for place in places]
        self._owned |= {assigned.partition: assigned for assigned in opened}
        return opened

    def reopen(self, leaving: Collection[Partition] = ()) -> list[Assigned]:
        """Everything that is owned, anew, as it is committed; without what is about to leave."""
        places = [place for place in self._owned if place not in leaving]
        for assigned in self._owned.values():
            assigned.closed = True
        self._owned = {}
        return self.open(places)

    def close(self, partition: Partition) -> None:
        """Own it no more, and forget what was known of it."""
        assigned = self._owned.pop(partition, None)
        if assigned is not None:
            assigned.closed = True
        self._halted.discard(partition)
        self.deferred.pop(partition, None)

    def halt(self, partitions: Iterable[Partition]) -> None:
        """Read these no more."""
        self._halted.update(partitions)

    def take(self, messages: Sequence[Message]) -> Iterator[tuple[Assigned, list[Message]]]:
        """Those of the fetched records that are to be handled, by partition, in order."""
        if not messages:
            return
        by_place: dict[tuple[str, int], list[Message]] = {}
        for message in messages:
            place = message.topic(), message.partition()
            found = by_place.get(place)
            if found is None:
                by_place[place] = [message]
            else:
                found.append(message)
        for (topic, number), records in by_place.items():
            partition = Partition(topic, number)
            assigned = self._owned.get(partition)
            if assigned is None or partition in self._halted:
                continue
            yield assigned, self._seen(assigned, records)

    def _seen(self, assigned: Assigned, records: list[Message]) -> list[Message]:
        """Those that are new; from the first on whose note would not fit into the metadata, none, for now."""
        progress = assigned.progress
        first, last = records[0].offset(), records[-1].offset()
        roomy = progress.fits(max(0, last - progress.next_offset) + 1)
        if roomy and last - first + 1 == len(records) and progress.see_run(first, len(records)):
            return records
        fresh = []
        for record in records:
            offset = record.offset()
            if offset < progress.next_offset:
                continue
            if not roomy and not progress.fits_next(offset):
                self.deferred[assigned.partition] = offset
                break
            if progress.see(offset):
                fresh.append(record)
        return fresh

    def lineage(self, assigned: Assigned, message: Message) -> Lineage:
        """The lineage of a record outside any unit."""
        return lineage_of(assigned, message)

    def _open(self, partition: Partition, committed: Checkpoint | None) -> Assigned:
        route, redelivered = self._routes[partition.topic]
        if committed is not None:
            progress = Progress.restore(committed.offset, committed.metadata, self._author)
            progress.most_waiting = self._most_in_place
            return Assigned(partition, route, redelivered, progress)
        if redelivered:
            raise MissingOffsetError(
                f"{partition.topic}-{partition.number} has no committed offset for this group, so what waits "
                "there could be lost or repeated; see `redelivery topology check`, mend with `topology apply`"
            )
        low, high = self._reader.bounds(partition)
        start = low if self._from_start else high
        _log.info("%s-%d is read for the first time, from offset %d", partition.topic, partition.number, start)
        progress = Progress(start, author=self._author, most_waiting=self._most_in_place)
        return Assigned(partition, route, redelivered, progress, dirty=True)


def lineage_of(assigned: Assigned, message: Message) -> Lineage:
    """The lineage of a record outside any unit."""
    try:
        headers = headers_of(message)
        own = read_lineage(headers) if assigned.redelivered else fresh_lineage(message, headers, assigned.route)
    except (UnreadableHeadersError, HeaderError):
        own = fresh_lineage(message, (), assigned.route)
    in_place = assigned.progress.waiting.get(message.offset())
    return own if in_place is None else own.delivered(in_place.deliveries)
