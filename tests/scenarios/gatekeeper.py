"""A broker with authorization, and a user whose rights the tests restrict."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.scenarios.authenticated import Acl, AuthenticatedKafka, authenticated_kafka

_LIMITED = "limited"


class Gatekeeper:
    """A broker where the tests may do anything, and each user anything that no ACL restricts."""

    def __init__(self, broker: AuthenticatedKafka) -> None:
        self.broker = broker
        self.cluster = broker.cluster
        broker.add_users([_LIMITED])
        self.kafka = broker.settings(_LIMITED)
        """Client settings of the user whose rights :meth:`allow` restricts."""
        self._allowed: dict[str, set[Acl]] = {}

    def allow(self, topic: str, *operations: str) -> None:
        """Allow the user only these operations on the topic from now on."""
        before = self._allowed.get(topic, set())
        wanted = {Acl(f"User:{_LIMITED}", "--topic", "literal", topic, operation) for operation in operations}
        self._allowed[topic] = wanted
        self.broker.grant(wanted - before)
        for acl in before - wanted:
            self.broker.revoke(acl)


@contextmanager
def guarded_kafka() -> Iterator[Gatekeeper]:
    """Start the broker."""
    with authenticated_kafka("SASL_PLAINTEXT", {"allow.everyone.if.no.acl.found": "true"}) as broker:
        yield Gatekeeper(broker)
