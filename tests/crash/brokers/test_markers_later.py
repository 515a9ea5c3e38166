"""A committed transaction whose marker a partition does not take yet holds up no other write."""

import time
from threading import Thread
from typing import cast

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_redelivery.transport.client_config import producer_config
from kafka_redelivery.transport.clients.takeover import Endurance
from kafka_redelivery.transport.clients.writer import TransactionalWriter
from kafka_redelivery.transport.errors import WriteAbortedError
from kafka_redelivery.transport.protocols import GroupMember, ProducerRecord, ReleaseTime
from tests.crash.brokers.three import Three
from tests.scenarios.cluster import Cluster
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(1800)]

_COMMITTED_AFTER_S = 20.0
"""Longer than a killed node stays among the replicas in sync, and shorter than the time-out of a transaction."""

_LONG_S = 400.0


def test_a_marker_that_has_to_wait(three: Three, unique: str) -> None:
    """The writer goes on with another id, and the first transaction is committed when its partition is well again."""
    cluster, others = Cluster(three.kafka.bootstrap_servers), f"{unique}.others"
    few, gone = f"{unique}.few", max(three.nodes)
    wanted = [NewTopic(few, 1, replica_assignment=[[min(three.nodes), gone]], config={"min.insync.replicas": "2"})]
    wanted.append(NewTopic(others, 1, replication_factor=3))
    for created in AdminClient({"bootstrap.servers": three.kafka.bootstrap_servers}).create_topics(wanted).values():
        created.result(30)
    config = producer_config({"bootstrap.servers": three.kafka.bootstrap_servers}, transactional_id=unique)
    endurance = Endurance(lambda *_, **__: None, lambda: f"{unique}.fresh", unique)
    writer = TransactionalWriter(config, cast("GroupMember", None), endurance, topic=others)
    try:
        at = ReleaseTime(round((time.time() + _COMMITTED_AFTER_S) * 1000), time.monotonic() + _COMMITTED_AFTER_S)
        first = Thread(target=writer.write, args=([ProducerRecord(few, 0, None, b"1", [])], {}, at))
        first.start()
        until(lambda: cluster.read_written(few), "the record is produced")
        three.nodes[gone].kill()
        first.join()

        def written() -> bool:
            try:
                writer.write([ProducerRecord(others, 0, None, b"2", [])], {})
            except WriteAbortedError:
                return False
            return True

        until(written, "another write is committed", within_s=_LONG_S)
        assert [record.value for record in cluster.read(others)] == [b"2"]
    finally:
        writer.close()
        three.heal()
    until(lambda: [record.value for record in cluster.read(few)] == [b"1"], "the first write is committed")
    cluster.delete(few, others)
