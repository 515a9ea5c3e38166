"""Brokers that lack what the configuration asks for are refused at the start, with the setting to change."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_redelivery.topology import exit_codes
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from kafka_redelivery.transport.client_config import producer_config
from kafka_redelivery.transport.clients.takeover import take_over
from kafka_redelivery.transport.errors import TransportError
from tests.scenarios.cluster import Cluster
from tests.scenarios.commands import redelivery, topology
from tests.scenarios.running import Group

pytestmark = pytest.mark.kafka

_PROPERTIES = {"transaction.max.timeout.ms": "10000", "group.coordinator.rebalance.protocols": "classic"}
_LONGER = "set producer.transaction.timeout.ms to 10000 or less"
_PROTOCOL = "these brokers do not offer the consumer protocol (Kafka 4.0)"


@pytest.fixture(scope="module")
def brokers() -> Iterator[Cluster]:
    """A broker with a lower limit and fewer protocols than Kafka has by default."""
    with EmbeddedKafka(properties=_PROPERTIES) as kafka:
        yield Cluster(kafka.bootstrap_servers)


@pytest.fixture
def group(brokers: Cluster, unique: str, tmp_path: Path) -> Iterator[Group]:
    """A group on that broker."""
    found = Group(brokers, unique, tmp_path)
    try:
        yield found
    finally:
        found.close()


def test_a_transaction_may_not_be_open_so_long(group: Group) -> None:
    """The check and each process name the setting; with it they start."""
    group.prepare()
    checked = topology("check", file=group.file)
    assert (checked.code, checked.out.count(_LONGER)) == (exit_codes.FAILED, 1), checked.out
    for command in ("worker", "scheduler"):
        refused = redelivery(command, file=group.file)
        assert (refused.code, _LONGER in refused.err) == (exit_codes.TOPOLOGY_REFUSED, True), refused.err
    group.configure(kafka={"producer.transaction.timeout.ms": 10_000})
    group.worker()
    group.send([["ok"]] * 4)
    group.settle()
    group.stop()


def test_the_brokers_configuration_may_not_be_read(group: Group) -> None:
    """Then the first transaction cannot begin, and the error names the setting."""
    config = producer_config({"bootstrap.servers": group.cluster.servers}, transactional_id=group.name)
    with pytest.raises(TransportError, match=r"lower producer\.transaction\.timeout\.ms=30000 to transaction\.max"):
        take_over(config)


def test_the_consumer_protocol_is_switched_off(group: Group) -> None:
    """As on each Kafka before 4.0: see test_kafka_versions.py."""
    group.prepare(kafka={"group.protocol": "consumer", "producer.transaction.timeout.ms": 10_000})
    checked = topology("check", file=group.file)
    assert (checked.code, checked.out.count(_PROTOCOL)) == (exit_codes.FAILED, 1), checked.out
    refused = redelivery("worker", file=group.file)
    assert (refused.code, _PROTOCOL in refused.err) == (exit_codes.TOPOLOGY_REFUSED, True), refused.err
