"""Before anything starts: does the cluster have what the configuration needs?"""

from __future__ import annotations

import logging
from dataclasses import replace

from topology.check import Severity, check
from topology.facts import ClusterFacts
from topology.plan import TopologyPlan, plan, scheduler_group
from topology.settings import Settings
from transport.admin import TIMEOUT_S, ClusterAdmin
from transport.admin_errors import TopologyRefusedError
from transport.waiting_records import topics_with_records

_log = logging.getLogger(__name__)


def survey(admin: ClusterAdmin, settings: Settings) -> tuple[TopologyPlan, ClusterFacts]:
    """What a configuration needs, and what the cluster has of it.

    Raises:
        TransportError: the cluster cannot be asked; see :class:`~transport.admin.ClusterAdmin`.
    """
    names = admin.topic_names()
    sources = [source.topic for source in settings.sources]
    planned = plan(settings, admin.describe(sources, {}).topics)
    readers = {name: (group,) for name, group in planned.readers(names).items()}
    readers |= dict.fromkeys(sources, (settings.group,))
    wanted = {topic.name for topic in planned.topics} | readers.keys() | set(planned.outputs)
    cluster = admin.describe(wanted, readers)
    return planned, replace(cluster, holding=_holding(settings, planned, cluster))


def verify(settings: Settings, *, timeout_s: float = TIMEOUT_S) -> None:
    """Refuse to start on a topology that would lose records.

    Raises:
        TopologyRefusedError: names each fault and its mend.
        TransportError: the cluster cannot be asked; see :class:`~transport.admin.ClusterAdmin`.
    """
    _log.info("looking at the topics at %s", settings.kafka.get("bootstrap.servers"))
    planned, cluster = survey(ClusterAdmin(settings.kafka, timeout_s=timeout_s), settings)
    faults = [fault for fault in check(planned, cluster) if fault.severity is Severity.REFUSE]
    if faults:
        raise TopologyRefusedError(faults)


def _holding(settings: Settings, planned: TopologyPlan, cluster: ClusterFacts) -> frozenset[str]:
    """Which of the tiers no longer configured hold records that the scheduler has not released."""
    scheduler = scheduler_group(planned.group)
    unread: dict[str, dict[int, int]] = {}
    for name in planned.retired_names(cluster.topics):
        for partition, bounds in cluster.topics[name].bounds.items():
            committed = cluster.offset(scheduler, name, partition)
            start = bounds.start if committed is None else max(committed, bounds.start)
            if start < bounds.end:
                unread.setdefault(name, {})[partition] = start
    return topics_with_records(settings.kafka, unread, scheduler)
