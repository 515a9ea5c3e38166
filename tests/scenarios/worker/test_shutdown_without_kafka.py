"""SIGTERM ends worker and scheduler within shutdownTimeout, also when Kafka no longer answers."""

import time
from pathlib import Path

import pytest

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.scenarios.cluster import Cluster
from tests.scenarios.running import Group
from tests.scenarios.waiting import until


@pytest.mark.kafka
@pytest.mark.slow
def test_kafka_is_gone(tmp_path: Path) -> None:
    """The broker is killed while retries are pending: both processes end within their time-out."""
    with EmbeddedKafka(data_dir=tmp_path / "kafka") as kafka:
        group = Group(Cluster(kafka.bootstrap_servers), "left", tmp_path)
        try:
            group.prepare(limits={"shutdownTimeout": "5s", "rebalanceTimeout": "1s"})
            scheduler, worker = group.scheduler(), group.worker()
            group.send([["raise"] * 50] * 20)
            until(lambda: len(group.cluster.read(group.tier("200ms"))) >= 20, "retry records are written")
            kafka.kill()
            time.sleep(3)

            began = time.monotonic()
            for process in (scheduler, worker):
                process.terminate()
            for process in (scheduler, worker):
                process.wait(30)
                # The end of a process takes long on a busy machine; by default it would wait for 25 s.
                assert time.monotonic() - began < 20
        finally:
            group.close()
