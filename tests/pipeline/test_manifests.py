"""The configuration of each shipped manifest starts its process and handles a record."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.validate import HERE
from tests.scenarios.cluster import Cluster, Sent
from tests.scenarios.running import Process
from tests.scenarios.waiting import until

pytestmark = pytest.mark.timeout(400)

_OWN = {
    # The broker of the tests needs no password.
    "REDELIVERY_KAFKA__SECURITY_PROTOCOL": "PLAINTEXT",
    "REDELIVERY_METRICS__HOST": "127.0.0.1",
}


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """The folder that the manifests mount: the files of the ConfigMap."""
    shutil.copytree(HERE / "kubernetes" / "config", tmp_path / "app")
    return tmp_path / "app"


@pytest.fixture
def billing(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with the topics of the configuration, which are deleted afterwards."""
    cluster.create("orders", "receipts", partitions=2)
    yield cluster
    for topic in ("orders", "receipts"):
        cluster.delete(topic)


def test_worker_and_scheduler(billing: Cluster, app: Path, unique: str) -> None:
    """After the job ``topology`` a worker handles an order, a scheduler reads its tiers, and both stop on SIGTERM."""
    assert _start(billing, app, unique, "kubernetes/topology.yaml").wait(60) == 0
    started = [_start(billing, app, unique, f"kubernetes/{name}.yaml") for name in ("worker", "scheduler")]
    try:
        _handle_an_order(billing, 1, *started)
        for process in started:
            process.stop()
    finally:
        for process in started:
            process.end()


@pytest.mark.spark
def test_stream(billing: Cluster, app: Path, unique: str) -> None:
    """After the job ``topology`` a query handles an order and stops on SIGTERM."""
    assert _start(billing, app, unique, "kubernetes/topology.yaml").wait(60) == 0
    stream = _start(billing, app, unique, "kubernetes-spark/stream.yaml")
    try:
        _handle_an_order(billing, 2, stream)
        stream.stop()
    finally:
        stream.end()


def _handle_an_order(cluster: Cluster, number: int, *processes: Process) -> None:
    cluster.produce("orders", [Sent(b'{"id": %d, "amount": 5}' % number, b"k")])

    def found() -> bool:
        assert all(each.running for each in processes), [each.log[-3000:] for each in processes]
        return any(json.loads(record.value or b"null")["order"] == number for record in cluster.read("receipts"))

    until(found, "the order has a receipt")


def _start(cluster: Cluster, app: Path, group: str, manifest: str) -> Process:
    """Start the container of a manifest as a process, with its arguments and environment, for a group of its own."""
    documents: list[dict[str, Any]] = list(yaml.safe_load_all((HERE / manifest).read_text(encoding="utf-8")))
    (pod,) = (each["spec"]["template"]["spec"] for each in documents if "template" in each.get("spec", ()))
    (container,) = pod["containers"]
    variables = {each["name"]: each.get("value", "pod-0") for each in container.get("env", ())}
    if "REDELIVERY_PIPELINE__CHECKPOINT" in variables:
        variables["REDELIVERY_PIPELINE__CHECKPOINT"] = str(app.parent / "checkpoint")
    variables |= _OWN | {"REDELIVERY_KAFKA__BOOTSTRAP_SERVERS": cluster.servers, "REDELIVERY_GROUP": group}
    entry = ["pipeline"] if container["image"] == "kafka-redelivery-spark" else []
    program = f"import os; os.chdir({str(app)!r}); from kafka_redelivery.cli.main import app; app()"
    name = container["name"]
    return Process(
        name, ["-c", program, *entry, *container["args"]], os.environ | variables, app.parent / f"{name}.log"
    )
