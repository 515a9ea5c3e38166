"""Rights on topics, groups and transactional ids, as ACLs grant them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

USER = "User:"
"""How Kafka writes the type of a principal that is a user."""

_NOT_IN_NAMES = re.compile(r"[^a-z0-9.-]+")


class ResourceType(StrEnum):
    """The kind of a resource, as Strimzi writes it."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactionalId"


class PatternType(StrEnum):
    """Whether a name is that of one resource, or the prefix of many."""

    LITERAL = "literal"
    PREFIXED = "prefixed"


class Operation(StrEnum):
    """An operation, as ``kafka-acls.sh`` and Strimzi write it. In this order they are printed."""

    CREATE = "Create"
    READ = "Read"
    WRITE = "Write"
    DELETE = "Delete"
    ALTER = "Alter"
    ALTER_CONFIGS = "AlterConfigs"
    DESCRIBE = "Describe"
    DESCRIBE_CONFIGS = "DescribeConfigs"


_IMPLIED_BY = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}
"""The operations of which each includes the key."""

_KINDS = {ResourceType.TOPIC: "topic", ResourceType.GROUP: "group", ResourceType.TRANSACTIONAL_ID: "transactional id"}


class Resource(NamedTuple):
    """The resources that a right applies to."""

    type: ResourceType
    pattern: PatternType
    name: str

    def __str__(self) -> str:
        kind = _KINDS[self.type]
        return f"{kind}s {self.name}*" if self.pattern is PatternType.PREFIXED else f"{kind} {self.name}"

    def covers(self, other: Resource) -> bool:
        """Whether every resource of ``other`` is one of these."""
        if self.type is not other.type:
            return False
        return other.name.startswith(self.name) if self.pattern is PatternType.PREFIXED else self == other


class Right(NamedTuple):
    """The right to do an operation on some resources."""

    resource: Resource
    operation: Operation

    def __str__(self) -> str:
        return f"{self.operation} on {self.resource}"

    def includes(self, other: Right) -> bool:
        """Whether Kafka allows everything with this right that it allows with ``other``."""
        implied = self.operation is other.operation or self.operation in _IMPLIED_BY.get(other.operation, ())
        return implied and self.resource.covers(other.resource)


_FLAGS = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
}


def default_principal(group: str, role: str) -> str:
    """Return the group and the role as a principal that is a valid name in Kubernetes, too."""
    return USER + _NOT_IN_NAMES.sub("-", f"{group}-{role}".lower()).strip(".-")


def kafka_command(servers: str, principal: str, operations: Iterable[Operation], resources: Iterable[Resource]) -> str:
    """Return the line of a shell script that allows operations on resources of the same type and pattern."""
    words = ["kafka-acls.sh", "--bootstrap-server", servers, "--command-config", "admin.properties"]
    words += ["--add", "--allow-principal", principal]
    for operation in operations:
        words += ["--operation", str(operation)]
    pattern = PatternType.LITERAL
    for resource in resources:
        words += [_FLAGS[resource.type], resource.name]
        pattern = resource.pattern
    return shlex.join([*words, "--resource-pattern-type", str(pattern)])
