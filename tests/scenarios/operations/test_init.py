"""The service that `redelivery init` writes handles a record on a real Kafka, with the commands that it names."""

import os
import subprocess
import sys
from pathlib import Path

from tests.scenarios.cluster import Cluster, Sent
from tests.scenarios.running import COMMAND, Process
from tests.scenarios.waiting import until


def test_a_new_service_handles_a_record(cluster: Cluster, unique: str, tmp_path: Path) -> None:
    """From an empty folder."""
    environment = {**os.environ, "REDELIVERY_KAFKA__BOOTSTRAP_SERVERS": cluster.servers}

    def run(*arguments: str) -> None:
        subprocess.run([sys.executable, *COMMAND, *arguments], cwd=tmp_path, env=environment, timeout=60, check=True)

    run("init", unique)
    config = ("--config", f"{tmp_path / unique}/redelivery.yaml")
    cluster.create("orders", "receipts", partitions=3)
    run("topology", "apply", *config)
    worker = Process("worker", [*COMMAND, "worker", *config], environment, tmp_path / "worker.log", warm=True)
    try:
        cluster.produce("orders", [Sent(b'{"id": "A1", "amount": 5}')])
        until(lambda: cluster.read("receipts") or not worker.running, "the receipt is written")
        assert [each.value for each in cluster.read("receipts")] == [b'{"order":"A1","amount":5}'], worker.log
        worker.stop()
    finally:
        worker.end()
        cluster.delete("orders", "receipts")
