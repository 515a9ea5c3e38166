"""Deletes committed records that are older than the audit horizon from internal topics.

Internal topics have unlimited retention, because retention cannot know which records are still pending. This module
deletes finished records with DeleteRecords, up to the lower of two offsets: the committed offset of the group that
reads the topic, and the offset of the first record younger than the horizon. No group reads the journal, so only the
horizon counts there.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

from kafka_redelivery.topology.cluster.plan import Role
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.errors import AdminError
from kafka_redelivery.transport.admin.partition_offsets import list_offsets
from kafka_redelivery.transport.admin.preflight import survey
from kafka_redelivery.transport.client_config import admin_config
from kafka_redelivery.transport.errors import TransportError, grant
from kafka_redelivery.transport.protocols import Partition

_log = logging.getLogger(__name__)

_INTERVAL = timedelta(minutes=1)
_TIMEOUT_S = 30.0


def trim(settings: Settings, now_ms: int, names: Collection[str] | None = None) -> dict[Partition, int]:
    """Trim every internal topic of the group once.

    Args:
        settings: the configuration; ``topics.auditHorizon`` is how long finished records are kept.
        now_ms: epoch ms.
        names: see :func:`survey`.

    Returns:
        the new log start offset of each partition that was trimmed. A source is never among them.

    Raises:
        TransportError: the cluster does not answer, or does not allow it.
    """
    planned, cluster = survey(ClusterAdmin(settings.kafka, timeout_s=_TIMEOUT_S), settings, names=names)
    sources = {source.topic for source in settings.sources}
    readers = {topic: group for topic, group in planned.readers(cluster.topics).items() if topic not in sources}
    unseen = {topic.name for topic in planned.topics if topic.role is Role.JOURNAL} | readers.keys()
    unseen -= cluster.topics.keys()
    limits: dict[Partition, int | None] = {}
    for topic, group in readers.items():
        if topic in unseen:
            continue
        committed = cluster.committed.get(group, {})
        for number in range(cluster.topics[topic].partitions):
            if (topic, number) in committed:
                limits[Partition(topic, number)] = committed[topic, number]
    for own in planned.topics:
        if own.role is Role.JOURNAL and own.name in cluster.topics:
            limits |= {Partition(own.name, number): None for number in range(cluster.topics[own.name].partitions)}
    horizon_ms = now_ms - settings.topics.audit_horizon // timedelta(milliseconds=1)
    calls = AdminCalls(admin_config(settings.kafka), timeout_s=_TIMEOUT_S)
    new_starts = _new_starts(calls, limits, horizon_ms)
    if new_starts:
        wanted = [TopicPartition(*partition, offset) for partition, offset in new_starts.items()]
        calls.each(
            "delete finished records from internal topics",
            lambda: calls.client.delete_records(wanted),
            f"Delete on topics {', '.join(sorted({partition.topic for partition in new_starts}))}",
        )
    if unseen:
        topics = ", ".join(sorted(unseen))
        right = grant(f"Delete on topics {topics}")
        raise AdminError("delete finished records", f"{topics} do not exist, or may not be described{right}")
    return new_starts


def _new_starts(calls: AdminCalls, limits: Mapping[Partition, int | None], horizon_ms: int) -> dict[Partition, int]:
    """Return the offset before which each partition can be trimmed; partitions with nothing to trim are missing."""
    starts = list_offsets(calls, limits, OffsetSpec.earliest())
    ends = list_offsets(calls, limits, OffsetSpec.latest())
    young = list_offsets(calls, limits, OffsetSpec.for_timestamp(horizon_ms))
    found = {}
    for partition, committed in limits.items():
        first_young = young[partition] if young[partition] >= 0 else ends[partition]  # -1: all records are older
        end = first_young if committed is None else min(committed, first_young)
        if end > starts[partition]:
            found[partition] = end
    return found


@contextmanager
def trimming(settings: Settings, clock_ms: Callable[[], int], names: Callable[[], Collection[str]]) -> Iterator[None]:
    """Trim once a minute on a thread while the block runs. A failure is logged; the next minute tries again.

    Args:
        settings: the configuration.
        clock_ms: epoch ms.
        names: returns the topics of the group that may exist, configured or not.
    """
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(_INTERVAL.total_seconds()):
            try:
                trimmed = trim(settings, clock_ms(), names())
            except TransportError as error:
                _log.warning("trimming internal topics failed, next attempt in a minute: %s", error)
            else:
                _log.debug("trimmed %s", trimmed)

    thread = threading.Thread(target=run, name="trim", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_TIMEOUT_S)
