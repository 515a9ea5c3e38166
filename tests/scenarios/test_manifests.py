"""What deploy/ ships runs on a broker that denies what no ACL allows: configuration, users, rights, files and probes.

Without Kubernetes. Each container of the manifests is a process with its arguments and variables, and with the files
that are mounted into it, under a folder instead of the root of a file system.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

from kafka_redelivery.transport.broker.guard import GuardedProcess
from tests.scenarios.authenticated import Acl, AuthenticatedKafka
from tests.scenarios.cluster import Sent
from tests.scenarios.running import COMMAND
from tests.scenarios.scraping import free_port, get
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka

_DEPLOY: Final = Path(__file__).parents[2] / "deploy"
_MANIFESTS: Final = _DEPLOY / "kubernetes"
_SOURCE, _OUTPUT, _LETTERS = "orders", "receipts", "DLQ.orders"
_FLAGS: Final = {"topic": "--topic", "group": "--group", "transactionalId": "--transactional-id"}
_PATTERNS: Final = {"literal": "literal", "prefix": "prefixed"}


def _documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def _users() -> dict[str, list[Acl]]:
    """The shipped users, each with its rights."""
    return {
        user["metadata"]["name"]: [
            Acl(
                f"User:{user['metadata']['name']}",
                _FLAGS[acl["resource"]["type"]],
                _PATTERNS[acl["resource"]["patternType"]],
                acl["resource"]["name"],
                operation,
            )
            for acl in user["spec"]["authorization"]["acls"]
            for operation in acl["operations"]
        ]
        for user in _documents(_DEPLOY / "kubernetes-strimzi" / "users.yaml")
    }


class Pod(NamedTuple):
    """A container of the manifests as a process."""

    process: GuardedProcess
    port: int
    grace_s: float
    container: dict[str, Any]
    log: Path

    def status(self, probe: str) -> int:
        """What a probe of the manifest answers."""
        return get(self.port, self.container[probe]["httpGet"]["path"])[0]


class Namespace:
    """Starts the pods of a folder of manifests."""

    def __init__(self, secured: AuthenticatedKafka, folder: Path) -> None:
        self._secured = secured
        self._folder = folder
        self._started: list[Pod] = []

    def start(self, file: str) -> Pod:
        """Start the container of a manifest."""
        workloads = [each["spec"] for each in _documents(_MANIFESTS / file) if "template" in each["spec"]]
        spec = workloads[0]["template"]["spec"]
        (container,) = spec["containers"]
        name = container["name"]
        root = self._folder / name
        for mount in container["volumeMounts"]:
            (volume,) = [each for each in spec["volumes"] if each["name"] == mount["name"]]
            self._mount(volume, root / mount["mountPath"].lstrip("/"), root)
        port = free_port()
        environment = {
            **os.environ,
            "REDELIVERY_KAFKA__BOOTSTRAP_SERVERS": str(self._secured.kafka["bootstrap.servers"]),
            "REDELIVERY_METRICS__PORT": str(port),
            "REDELIVERY_METRICS__HOST": "127.0.0.1",
        }
        for entry in container["env"]:
            environment[entry["name"]] = entry.get("value", f"{name}-0")  # otherwise the name of the pod
        log = self._folder / f"{name}.log"
        with log.open("wb") as output:
            process = GuardedProcess(
                [sys.executable, *COMMAND, *container["args"], f"--config={root / 'app' / 'redelivery.yaml'}"],
                grace_seconds=1,
                env=environment,
                stdout=output,
                stderr=output,
            )
        pod = Pod(process, port, float(spec.get("terminationGracePeriodSeconds", 30)), container, log)
        self._started.append(pod)
        return pod

    def _mount(self, volume: dict[str, Any], target: Path, root: Path) -> None:
        """Make the files of a volume. Paths in the configuration begin at the root of the container."""
        target.mkdir(parents=True)
        if "configMap" in volume:
            for file in (_MANIFESTS / "config").iterdir():
                text = file.read_text(encoding="utf-8").replace(": /etc/", f": {root}/etc/")
                (target / file.name).write_text(text, encoding="utf-8")
        for item in volume.get("secret", {}).get("items", ()):
            authority = Path(str(self._secured.kafka["ssl.ca.location"])).read_text(encoding="utf-8")
            content = {"ca.crt": authority, "password": f"{self._secured.kafka['sasl.password']}\n"}[item["key"]]
            (target / item["path"]).write_text(content, encoding="utf-8")

    def close(self) -> None:
        """End everything and print the logs."""
        for pod in self._started:
            pod.process.kill()
            pod.process.wait(10)
            print(f"--- {pod.log.name}\n{pod.log.read_text(encoding='utf-8', errors='replace')[-4000:]}")  # noqa: T201


@pytest.fixture
def namespace(secured: AuthenticatedKafka, tmp_path: Path) -> Iterator[Namespace]:
    """The shipped users with their rights, the topics of the service, and no process."""
    users = _users()
    secured.add_users(users)
    secured.grant(acl for acls in users.values() for acl in acls)
    secured.cluster.create(_SOURCE, _OUTPUT, partitions=2)
    found = Namespace(secured, tmp_path)
    try:
        yield found
    finally:
        found.close()


def test_the_shipped_manifests_run(secured: AuthenticatedKafka, namespace: Namespace) -> None:
    """The Job makes the topics; worker and scheduler get ready, handle records, and stop within their grace period."""
    job = namespace.start("topology.yaml")
    assert job.process.wait(60) == 0
    pods = [namespace.start("worker.yaml"), namespace.start("scheduler.yaml")]
    for pod in pods:
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            until(lambda: pod.status(probe) == 200, f"{probe} of {pod.container['name']} succeeds")  # noqa: B023
    orders = [{"id": n, "amount": amount} for n, amount in enumerate((5, 7, -1, 9))] + [{"id": 4, "amount": "many"}]
    secured.cluster.produce(_SOURCE, [Sent(json.dumps(order).encode(), b"key") for order in orders])
    until(lambda: len(secured.cluster.read(_OUTPUT)) == 3, "all good orders have a receipt")
    until(lambda: len(secured.cluster.read(_LETTERS)) == 1, "the rejected one is a dead letter")
    tier = "billing.retry.1s"
    until(lambda: len(secured.cluster.read(tier)) == 1, "the one that cannot be compared is retried")
    until(lambda: len(secured.cluster.read("billing.ready.orders")) >= 1, "the scheduler releases it")
    for pod in pods:
        pod.process.terminate()
    for pod in pods:
        assert pod.process.wait(pod.grace_s) == 0
        log = pod.log.read_text(encoding="utf-8")
        assert "grant the right" not in log
        assert "authoriz" not in log.lower()
