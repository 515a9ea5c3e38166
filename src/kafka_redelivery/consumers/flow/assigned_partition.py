"""A partition that the worker owns, and the lineage of its records."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_redelivery.consumers.routes import Route
from kafka_redelivery.topology.errors import HeaderError
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import (
    Headers,
    read_expiration,
    read_lineage,
    read_partial_lineage,
    read_persistent,
)
from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.transport.clients.message_headers import UnreadableHeadersError, headers_of
from kafka_redelivery.transport.protocols import Message, Partition


@dataclass(slots=True, eq=False)
class AssignedPartition:
    """A partition that this worker owns. Only the polling thread changes it; slots read what never changes."""

    partition: Partition
    route: Route
    redelivered: bool
    """Whether it is a partition of a ready topic. Its records carry their lineage in headers."""

    progress: Progress
    committed: Checkpoint | None = None
    """What this worker knows to be committed; ``None`` = no offset is."""

    dirty: bool = False
    """Whether there is progress that no commit contains yet."""

    mark: str = ""
    """The mark of its topic, for the journal; empty if it is unknown."""

    starting: bool = False
    """Whether it starts at the end of its log, and no commit contains that offset yet.

    A successor would start at the end that the log has then. So no record of it is fetched before that commit.
    """

    commit_at_s: float = 0.0
    """When it is committed at the latest although no outcome has to be written (monotonic), if it is dirty."""

    closed: bool = False
    """Whether it was revoked, lost or rewound. Results that still arrive for it are ignored."""


def lineage_of(assigned: AssignedPartition, message: Message) -> Lineage:
    """Return the lineage of a record that is not in a work item."""
    headers: Headers = ()
    try:
        headers = headers_of(message)
        lineage = read_lineage(headers) if assigned.redelivered else initial_lineage(message, headers, assigned.route)
    except UnreadableHeadersError:
        lineage = initial_lineage(message, (), assigned.route)
    except HeaderError:
        lineage = damaged_lineage(message, headers, assigned.route)
    in_place = assigned.progress.waiting.get(message.offset())
    return lineage if in_place is None else lineage.delivered(in_place.deliveries)


def initial_lineage(message: Message, headers: Headers, route: Route, deliveries: int = 0) -> Lineage:
    """Return the lineage of a record before its first delivery, or after ``deliveries``."""
    topic, number, offset, sent_ms = message.topic(), message.partition(), message.offset(), message.timestamp()[1]
    lineage = Lineage(topic, number, offset, sent_ms, deliveries)
    if headers:
        expiration_ms, persistent = read_expiration(headers), read_persistent(headers)
        lineage = Lineage(topic, number, offset, sent_ms, deliveries, expiration_ms, persistent)
    return route.with_expiration(lineage) if route.sets_expiration else lineage


def damaged_lineage(message: Message, headers: Headers, route: Route) -> Lineage:
    """Return what the headers of a ready record still say about its lineage, completed from the ready record itself."""
    ready = Lineage(message.topic(), message.partition(), message.offset(), message.timestamp()[1])
    return route.with_expiration(read_partial_lineage(headers, ready))
