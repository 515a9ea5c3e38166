"""A committed transaction whose marker a partition does not take yet holds up no other write."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_redelivery.transport.client_config import Config, producer_config
from kafka_redelivery.transport.clients.takeover import Endurance
from kafka_redelivery.transport.clients.writer import TransactionalWriter
from kafka_redelivery.transport.errors import WriteAbortedError
from kafka_redelivery.transport.protocols import GroupMember, ProducerRecord, ReleaseTime
from tests.crash.brokers.three import Three, despite_errors
from tests.scenarios.cluster import Cluster
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(1800)]

_COMMITTED_AFTER_S = 25.0
"""Longer than a killed node stays among the replicas in sync, and shorter than the time-out of a transaction."""

_CONFIRMED_S = 4.0
"""For the record, by both replicas."""

_LONG_S = 400.0


def test_a_marker_that_has_to_wait(three: Three, unique: str) -> None:
    """The writer goes on with another id, and the first transaction is committed when its partition is well again."""
    servers: Config = {"bootstrap.servers": three.kafka.bootstrap_servers}
    cluster, admin, others = Cluster(three.kafka.bootstrap_servers), AdminClient(servers), f"{unique}.others"
    endurance = Endurance(lambda *_, **__: None, lambda: f"{unique}.fresh", unique)
    config = producer_config(servers, transactional_id=unique)
    writer = TransactionalWriter(config, cast("GroupMember", None), endurance)
    stays = three.transaction_coordinator(unique)
    gone, few = next(node for node in three.nodes if node != stays), f"{unique}.few"
    wanted = [
        NewTopic(few, 1, replica_assignment=[[stays, gone]], config={"min.insync.replicas": "2"}),
        NewTopic(others, 1, replication_factor=3),
    ]
    for created in admin.create_topics(wanted).values():
        created.result(30)

    def write(topic: str, value: bytes, at: ReleaseTime | None = None) -> bool:
        try:
            writer.write([ProducerRecord(topic, 0, None, value, [])], {}, at)
        except WriteAbortedError:
            return False
        return True

    try:
        at = ReleaseTime(round((time.time() + _COMMITTED_AFTER_S) * 1000), time.monotonic() + _COMMITTED_AFTER_S)
        with ThreadPoolExecutor(1) as threads:
            first = threads.submit(write, few, b"1", at)
            time.sleep(_CONFIRMED_S)
            three.nodes[gone].kill()
            assert first.result(), "the first write is committed"
        seen = until(despite_errors(lambda: [cluster.read(few)]), "a node answers")
        assert seen == [[]], "its marker is missing"
        until(lambda: write(others, b"2"), "another write is committed", within_s=_LONG_S)
        assert [record.value for record in cluster.read(others)] == [b"2"]
        assert not cluster.read(few), "its marker is still missing"
    finally:
        writer.close()
        three.heal()
    until(lambda: [record.value for record in cluster.read(few)] == [b"1"], "the first write is visible")
    cluster.delete(few, others)
