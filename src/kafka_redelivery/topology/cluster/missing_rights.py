"""Which rights on topics a role lacks, and whether it can start without them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kafka_redelivery.topology.cluster.acls import AclRole, configured_topics, redrive_topics, rights
from kafka_redelivery.topology.cluster.kafka_rights import Operation, ResourceType, Right
from kafka_redelivery.topology.cluster.sweep_plan import sweep_plan
from kafka_redelivery.topology.config.settings import Settings

_COMMANDS = frozenset({AclRole.VIEWER, AclRole.REDRIVE, AclRole.IMPORT, AclRole.PURGE, AclRole.OPERATOR})
"""Roles of commands that do not read the configurations of topics."""

_COUNTING = frozenset({AclRole.REPORT, AclRole.AUDIT})
"""Roles of commands whose figures are wrong without one of their topics."""


@dataclass(frozen=True, slots=True)
class MissingRights:
    """The rights that a user lacks for a role, and whether the role cannot start without one of them."""

    rights: tuple[Right, ...]
    refused: bool


def missing_rights(settings: Settings, role: AclRole, allowed: Mapping[str, Collection[Operation]]) -> MissingRights:
    """Compare the rights that a role needs with those that its user has.

    At start a role describes its topics and their configurations, and a worker, query or scheduler reads some of them.
    A right to write, delete or create is missed later, and by some records only, so a start goes on without it. The
    control topic is optional, and so are the topics of `redelivery dlq` for all roles but apply, which creates them.

    Args:
        settings: the configuration.
        role: the role.
        allowed: the operations that the user may do on each topic, those that others include as well. A topic whose
            operations are unknown is left out.
    """
    needed = [right for right in rights(settings, [role]) if right.resource.type is ResourceType.TOPIC]
    optional = {settings.naming().control_topic()}
    if role is not AclRole.APPLY:
        optional |= {topic.name for topic in redrive_topics(settings)}
    optional_reads = optional if role in _COUNTING else optional | set(sweep_plan(settings).topics)
    lacking: dict[Right, None] = {}
    refused = False
    for topic in configured_topics(settings):
        operations = allowed.get(topic.name)
        if operations is None:
            continue
        on_topic = [right for right in needed if right.resource.covers(topic)]
        lacking |= dict.fromkeys(right for right in on_topic if right.operation not in operations)
        if on_topic and Operation.DESCRIBE not in operations:
            refused |= topic.name not in optional
            continue
        required = {Operation.DESCRIBE_CONFIGS} if on_topic and role not in _COMMANDS else set()
        if role is not AclRole.APPLY and topic.name not in optional_reads:
            required |= {right.operation for right in on_topic} & {Operation.READ}
        refused |= not required <= set(operations)
    return MissingRights(tuple(right for right in needed if right in lacking), refused)
