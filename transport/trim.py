"""Deletes from internal topics what is committed and older than the audit horizon.

Internal topics keep everything by configuration, because retention cannot know what is still
pending. What is done is deleted here instead, with DeleteRecords, up to the lower of two offsets: the
committed one of the group that reads the topic, and that of the first record younger than the
horizon. The journal has no reader; for it only the horizon counts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

from topology.plan import Role
from topology.settings import Settings
from transport.admin import ClusterAdmin
from transport.admin_calls import AdminCalls
from transport.client_config import admin_config
from transport.errors import TransportError
from transport.preflight import survey

_log = logging.getLogger(__name__)

_EVERY = timedelta(minutes=1)
_TIMEOUT_S = 30.0


def trim(settings: Settings, now_ms: int) -> dict[tuple[str, int], int]:
    """Trim every internal topic of the group once.

    Args:
        settings: the configuration; ``topics.auditHorizon`` is how long what is done is kept.
        now_ms: epoch ms.

    Returns:
        for each partition that was trimmed the offset it now starts at. A source is never among them.

    Raises:
        TransportError: the cluster cannot be asked, or does not allow it.
    """
    planned, cluster = survey(ClusterAdmin(settings.kafka, timeout_s=_TIMEOUT_S), settings)
    sources = {source.topic for source in settings.sources}
    readers = {topic: group for topic, group in planned.readers(cluster.topics).items() if topic not in sources}
    limits: dict[tuple[str, int], int | None] = {}
    for topic, group in readers.items():
        committed = cluster.committed.get(group, {})
        for number in range(cluster.topics[topic].partitions):
            if (topic, number) in committed:
                limits[topic, number] = committed[topic, number]
    for own in planned.topics:
        if own.role is Role.JOURNAL and own.name in cluster.topics:
            limits |= {(own.name, number): None for number in range(cluster.topics[own.name].partitions)}
    horizon_ms = now_ms - settings.topics.audit_horizon // timedelta(milliseconds=1)
    bounds = _Offsets(AdminCalls(admin_config(settings.kafka), timeout_s=_TIMEOUT_S), list(limits))
    useful = bounds.useful(limits, horizon_ms)
    if useful:
        bounds.delete(useful)
    return useful


class _Offsets:
    """The broker's answers about some partitions."""

    def __init__(self, calls: AdminCalls, places: list[tuple[str, int]]) -> None:
        self._calls = calls
        self._places = places

    def useful(self, limits: Mapping[tuple[str, int], int | None], horizon_ms: int) -> dict[tuple[str, int], int]:
        """Up to where each partition can be trimmed, for those where that is anything at all."""
        if not limits:
            return {}
        starts = self._ask(OffsetSpec.earliest())
        ends = self._ask(OffsetSpec.latest())
        young = self._ask(OffsetSpec.for_timestamp(horizon_ms))
        found = {}
        for place, committed in limits.items():
            first_young = young[place] if young[place] >= 0 else ends[place]  # -1: none is that young
            end = first_young if committed is None else min(committed, first_young)
            if end > starts[place]:
                found[place] = end
        return found

    def delete(self, ends: Mapping[tuple[str, int], int]) -> None:
        """Delete what lies before."""
        wanted = [TopicPartition(topic, number, end) for (topic, number), end in ends.items()]
        operation = "delete what is done from internal topics"
        self._calls.each(operation, lambda: self._calls.client.delete_records(wanted))

    def _ask(self, spec: OffsetSpec) -> dict[tuple[str, int], int]:
        wanted = {TopicPartition(topic, number): spec for topic, number in self._places}
        operation = "read the offsets of internal topics"
        answers = self._calls.each(operation, lambda: self._calls.client.list_offsets(wanted))
        return {(place.topic, place.partition): answer.offset for place, answer in answers.items()}


@contextmanager
def trimming(settings: Settings, clock_ms: Callable[[], int]) -> Iterator[None]:
    """Trim once a minute, in a thread, while the block runs; a failure is logged and tried again."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(_EVERY.total_seconds()):
            try:
                trimmed = trim(settings, clock_ms())
            except TransportError as error:
                _log.warning("internal topics are not trimmed now: %s", error)
            else:
                _log.debug("trimmed %s", trimmed)

    thread = threading.Thread(target=work, name="trim", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_TIMEOUT_S)
