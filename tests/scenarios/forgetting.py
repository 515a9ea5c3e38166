"""A broker that forgets a ``transactional.id`` after a few seconds without a transaction, not after a week."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.scenarios.cluster import Cluster
from tests.scenarios.waiting import until

_STATE: Final = "__transaction_state"

FORGETTING: Final = {
    "transactional.id.expiration.ms": "4000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
    "transaction.state.log.num.partitions": "4",
}
"""Properties of the broker. The time is longer than any pause between two transactions of one start."""


@contextmanager
def forgetting_kafka() -> Iterator[EmbeddedKafka]:
    """Run such a broker."""
    with EmbeddedKafka(properties=FORGETTING) as broker:
        yield broker


def await_forgotten(cluster: Cluster, *identities: str) -> None:
    """Wait until the broker has forgotten transactional ids that it knew."""
    for identity in identities:
        until(lambda identity=identity: _states(cluster, identity)[-1:] == [None], f"{identity} has expired")  # type: ignore[misc]


def known(cluster: Cluster, prefix: str) -> set[str]:
    """Return the transactional ids with a prefix that the broker has ever known."""
    return {each for record in cluster.read(_STATE) if (each := _identity(record.key)).startswith(prefix)}


def _states(cluster: Cluster, identity: str) -> list[bytes | None]:
    return [record.value for record in cluster.read(_STATE) if _identity(record.key) == identity]


def _identity(key: bytes | None) -> str:
    """Read the name from a key: two bytes of a version, two of its length, the name."""
    return (key or b"")[4:].decode()
