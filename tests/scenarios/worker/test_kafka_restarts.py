"""No record is lost or duplicated when Kafka is stopped and restarted in the middle of the work."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.scenarios.cluster import Cluster
from tests.scenarios.running import Group, exactly

_NUMBER = 800


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    """Start a broker for this test alone, whose data survives a restart."""
    with EmbeddedKafka(data_dir=tmp_path / "kafka") as broker:
        yield broker


@pytest.mark.kafka
@pytest.mark.slow
def test_worker_and_scheduler_outlive_their_kafka(own_kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Neither process ends, and afterwards every record has been written exactly once."""
    group = Group(Cluster(own_kafka.bootstrap_servers), "restarted", tmp_path)
    try:
        group.prepare(
            handler={"slots": 2},
            limits={"batch": 30, "bufferRecords": 300},
            policyEntry={
                "redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 500, "redeliveryDelay": 500}
            },
        )
        dead = {n for n in range(_NUMBER) if n % 10 == 0}
        group.send(["raise"] if n in dead else ["raise", "ok"] if n % 2 else ["sleep 0.01"] for n in range(_NUMBER))
        scheduler, worker = group.scheduler(), group.worker()
        with group.cluster.follow(group.output) as tail:
            tail.reach(_NUMBER // 20)
            with group.suspended():
                own_kafka.stop()
            assert len(tail.records) < _NUMBER - len(dead), "the stop came too late to prove anything"
        own_kafka.start()
        group.settle()
        assert worker.running
        assert scheduler.running
        group.stop()
        assert group.outputs() == exactly(set(range(_NUMBER)) - dead)
        assert group.dead() == exactly(dead)
    finally:
        group.close()
