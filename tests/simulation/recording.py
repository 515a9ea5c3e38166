"""Records what real clients assign: groups of real consumers on a real broker, whose members come and go.

``python -m tests.simulation record`` writes ``assignments.json``.
"""

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from confluent_kafka import Consumer, KafkaException

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from kafka_redelivery.transport.client_config import Config, consumer_config
from kafka_redelivery.transport.protocols import Partition
from tests.scenarios.cluster import Cluster
from tests.scenarios.waiting import until
from tests.simulation.assignors import in_short

FILE = Path(__file__).with_name("assignments.json")

_POLL_S = 0.002
_STABLE_S = 1.5
"""For how long an assignment does not change any more when it is recorded: the second of two rebalances is soon."""

_CLIENT: Config = {
    "log_level": 0,
    "session.timeout.ms": 30_000,
    "heartbeat.interval.ms": 300,  # how soon a member learns of a rebalance
    "topic.metadata.refresh.interval.ms": 60_000,
}


class Case(NamedTuple):
    """A group: its topics, and who its members are in each step."""

    strategy: str
    topics: Mapping[str, int]
    steps: Sequence[Sequence[str]]


def _named(*numbers: int) -> list[str]:
    return [f"w{number:03}" for number in numbers]


_ORDERS = {"billing.ready.orders": 20, "orders": 20}
_WIDE = {"billing.ready.orders": 16, "orders": 64}
_ANSWERED = (
    *("source02", "ready04", "source01", "source03", "source00"),
    *("ready02", "source04", "ready01", "ready03", "ready00"),
)
"""The order in which the broker's answers name these topics: by a hash of their names with the prefix of the case.

Only the assignments show it: the partitions of a member that has left are assigned in this order, backwards.
"""

_MANY = {topic: 20 if topic.startswith("source") else 16 for topic in _ANSWERED}

CASES = {
    f"{name}, {strategy}": Case(strategy, topics, [_named(*step) for step in steps])
    for strategy in ("range", "cooperative-sticky")
    for name, topics, steps in (
        ("a source and its ready topic", _ORDERS, ([0], [0, 1], [0, 1, 2], [0, 2], [0, 2, 3])),
        ("more source than ready partitions", _WIDE, (range(5), range(6), range(1, 6), [*range(1, 6), 0])),
        ("five sources", _MANY, (range(10), range(11), range(12), range(1, 12), range(2, 12), [*range(2, 12), 20])),
        ("more members than partitions", {"orders": 3}, ([0, 1], [0, 1, 2], [0, 1, 2, 3], [1, 2, 3])),
    )
}
"""The first members join together. Then one comes or goes at a time, since between two changes may be a rebalance."""


def record() -> None:
    """Run all cases and write the file."""
    with EmbeddedKafka(properties={"group.initial.rebalance.delay.ms": "3000"}) as kafka:
        found = {name: _as_json(case, list(run(kafka.bootstrap_servers, name, case))) for name, case in CASES.items()}
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _as_json(case: Case, steps: Sequence[Mapping[str, set[Partition]]]) -> dict[str, object]:
    return {
        "strategy": case.strategy,
        "topics": dict(case.topics),
        "steps": [{member: in_short(each) for member, each in sorted(step.items())} for step in steps],
    }


def run(servers: str, name: str, case: Case) -> Iterator[dict[str, set[Partition]]]:
    """Yield the assignment of each step when it does not change any more. Topics are prefixed, results are not."""
    cluster, prefix = Cluster(servers), f"{crc32(name.encode())}-"
    for topic, count in case.topics.items():
        cluster.create(prefix + topic, partitions=count)
    members: dict[str, Consumer] = {}
    try:
        for step in case.steps:
            for member in [each for each in members if each not in step]:
                _leave(members.pop(member))
            new = [each for each in step if each not in members]
            for member in new:
                members[member] = _join(servers, prefix, member, case)
            yield _stable(cluster, members, prefix, case.topics.values())
    finally:
        for consumer in members.values():
            consumer.close()


def _join(servers: str, group: str, member: str, case: Case) -> Consumer:
    kafka: Config = {**_CLIENT, "bootstrap.servers": servers, "partition.assignment.strategy": case.strategy}
    consumer = Consumer({**consumer_config(kafka, group=group, instance=member), "client.id": member})
    consumer.subscribe([group + topic for topic in case.topics])
    return consumer


def _leave(consumer: Consumer) -> None:
    """Leave the group although the membership is static: a static member leaves when it unsubscribes."""
    consumer.unsubscribe()
    end = time.monotonic() + 5
    while (consumer.assignment() or consumer.memberid()) and time.monotonic() < end:
        consumer.poll(0.05)
    consumer.close()


def _stable(
    cluster: Cluster, members: Mapping[str, Consumer], prefix: str, counts: Collection[int]
) -> dict[str, set[Partition]]:
    seen: dict[str, set[tuple[str, int]]] = {}
    since = 0.0

    def settled() -> bool:
        nonlocal seen, since
        for consumer in members.values():
            with suppress(KafkaException):
                consumer.poll(_POLL_S)
        now = {
            member: {(each.topic, each.partition) for each in consumer.assignment()}
            for member, consumer in members.items()
        }
        if now != seen:
            seen, since = now, time.monotonic()
        idle = sum(not each for each in seen.values())
        if (
            time.monotonic() - since < _STABLE_S
            or sum(map(len, seen.values())) < sum(counts)
            or idle > max(0, len(members) - max(counts))
        ):
            return False
        since = time.monotonic()
        with suppress(KafkaException, TimeoutError):  # the coordinator is not there yet
            return cluster.members(prefix) == seen
        return False

    until(settled, "all partitions are assigned")
    return {
        member: {Partition(topic.removeprefix(prefix), number) for topic, number in partitions}
        for member, partitions in seen.items()
    }
