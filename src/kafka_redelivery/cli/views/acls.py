"""How ACLs are printed: as commands of Kafka, as users of Strimzi, and as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka_redelivery.topology.cluster.acls import AclRole
from kafka_redelivery.topology.cluster.kafka_rights import (
    USER,
    Operation,
    PatternType,
    Resource,
    ResourceType,
    Right,
    kafka_command,
)
from kafka_redelivery.topology.config.rules.clients import mechanism_of

_STRIMZI_PATTERNS = {PatternType.LITERAL: "literal", PatternType.PREFIXED: "prefix"}


@dataclass(frozen=True, slots=True)
class AclUser:
    """A user, its roles, and all rights that they need."""

    principal: str
    roles: tuple[AclRole, ...]
    rights: tuple[Right, ...]

    @property
    def name(self) -> str:
        """The principal without its type."""
        return self.principal.removeprefix(USER)


def kafka_commands(users: Sequence[AclUser], servers: str) -> Iterator[str]:
    """Yield the lines of a shell script that grants the rights."""
    for user in users:
        yield f"# {', '.join(user.roles)}"
        together: dict[tuple[ResourceType, PatternType, tuple[Operation, ...]], list[str]] = defaultdict(list)
        for resource, allowed in _operations(user.rights).items():
            together[resource.type, resource.pattern, tuple(allowed)].append(resource.name)
        for (resource_type, pattern, operations), names in together.items():
            resources = [Resource(resource_type, pattern, name) for name in names]
            yield kafka_command(servers, user.principal, operations, resources)


def strimzi_users(users: Sequence[AclUser], kafka: Mapping[str, object]) -> list[dict[str, Any]]:
    """Return a resource ``KafkaUser`` for each user. The name of its cluster is to be corrected.

    Args:
        users: the users.
        kafka: the client settings, which say how they log in.
    """
    authentication = _strimzi_authentication(kafka)
    return [
        strimzi_resource(
            "KafkaUser",
            user.name,
            {
                **({"authentication": {"type": authentication}} if authentication else {}),
                "authorization": {
                    "type": "simple",
                    "acls": [
                        {
                            "resource": {
                                "type": str(resource.type),
                                "name": resource.name,
                                "patternType": _STRIMZI_PATTERNS[resource.pattern],
                            },
                            "operations": [str(operation) for operation in operations],
                        }
                        for resource, operations in _operations(user.rights).items()
                    ],
                },
            },
        )
        for user in users
    ]


def strimzi_resource(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a resource of Strimzi, in the version of its API that Strimzi 0.49 and newer have."""
    return {
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": {"strimzi.io/cluster": "my-cluster"}},
        "spec": spec,
    }


def _strimzi_authentication(kafka: Mapping[str, object]) -> str | None:
    """Return how Strimzi calls the login; ``None`` for one that it does not manage."""
    mechanism = mechanism_of(kafka)
    if not mechanism:
        return "tls" if any(str(name).startswith("ssl.certificate.") for name in kafka) else None
    return "scram-sha-512" if mechanism.upper() == "SCRAM-SHA-512" else None


def documents(users: Sequence[AclUser]) -> list[dict[str, Any]]:
    """Return the users as plain data for JSON."""
    return [
        {
            "principal": user.principal,
            "roles": [str(role) for role in user.roles],
            "acls": [
                {
                    "resourceType": str(resource.type),
                    "patternType": str(resource.pattern),
                    "name": resource.name,
                    "operation": str(operation),
                }
                for resource, operation in user.rights
            ],
        }
        for user in users
    ]


def _operations(rights: Sequence[Right]) -> dict[Resource, list[Operation]]:
    found: dict[Resource, list[Operation]] = defaultdict(list)
    for resource, operation in rights:
        found[resource].append(operation)
    return found
