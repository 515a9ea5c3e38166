"""What a configuration needs of a cluster, what the cluster has of it, and what is wrong there."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from kafka_redelivery.topology.cluster.acls import AclRole
from kafka_redelivery.topology.cluster.check import TopologyFault, check
from kafka_redelivery.topology.cluster.facts import ClusterFacts
from kafka_redelivery.topology.cluster.plan import TopologyPlan, needs_scheduler
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.preflight import scheduler_runs, survey


class TopologyLook(NamedTuple):
    """One look at the topics of a group."""

    plan: TopologyPlan
    cluster: ClusterFacts
    faults: tuple[TopologyFault, ...]


def look_at_topology(settings: Settings, role: AclRole | None = None) -> TopologyLook:
    """Compare the topics of a group with what its configuration needs; change nothing.

    Args:
        settings: the configuration.
        role: the role of the user, whose missing rights are then an error.

    Raises:
        TransportError: the cluster does not answer, or the user lacks a right.
    """
    planned, cluster = survey(ClusterAdmin(settings.kafka), settings, role)
    if needs_scheduler(settings) or cluster.holding:
        cluster = replace(cluster, scheduler_runs=scheduler_runs(settings))
    return TopologyLook(planned, cluster, tuple(check(planned, cluster)))
