"""How messages name a missing right."""

import re

from kafka_redelivery.topology.cluster.acls import Operation, PatternType, Resource, ResourceType, Right
from tests.scenarios.authenticated import Acl
from tests.scenarios.running import Group

_GRANT = re.compile(r"grant the right (.+?) \(`redelivery topology acls")
_TYPES = {
    "--topic": ResourceType.TOPIC,
    "--group": ResourceType.GROUP,
    "--transactional-id": ResourceType.TRANSACTIONAL_ID,
}


def right_of(acl: Acl) -> Right:
    """Return the right that an ACL grants."""
    return Right(Resource(_TYPES[acl.flag], PatternType(acl.pattern), acl.name), Operation(acl.operation))


def example(group: Group, text: str) -> str:
    """Return a text about a group with the names of the documentation."""
    text = text.replace(group.source, "orders").replace(group.output, "receipts")
    return text.replace(group.name, "billing")


def names(right: Right, text: str) -> bool:
    """Whether a text says that this right is to be granted."""
    return any(_line_names(right, line) for line in text.splitlines())


def _line_names(right: Right, line: str) -> bool:
    if line == f"  {right}":
        return True
    found = _GRANT.search(line)
    if found is None or not found[1].startswith(f"{right.operation} "):
        return False
    words = re.split("[ ,]+", found[1])
    if right.resource.pattern is PatternType.PREFIXED:
        return any(word.startswith(right.resource.name) for word in words)
    return right.resource.name in words
