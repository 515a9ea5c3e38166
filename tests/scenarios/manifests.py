"""The containers of the manifests in deploy/ as processes, on a broker that denies what no ACL allows.

Each has its arguments and variables, and the files that are mounted into it, under a folder instead of the root of a
file system.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from kafka_redelivery.transport.broker.guard import GuardedProcess
from tests.scenarios.authenticated import Acl, AuthenticatedKafka
from tests.scenarios.running import COMMAND, KILLED_S
from tests.scenarios.scraping import free_port, get

_DEPLOY: Final = Path(__file__).parents[2] / "deploy"
SOURCE, OUTPUT, LETTERS = "orders", "receipts", "DLQ.orders"
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
        """Start the container of a manifest, such as ``kubernetes/worker.yaml``."""
        workloads = [each["spec"] for each in _documents(_DEPLOY / file) if "template" in each["spec"]]
        spec = workloads[0]["template"]["spec"]
        (container,) = spec["containers"]
        name = container["name"]
        root = self._folder / name
        for mount in container["volumeMounts"]:
            claimed = {"name": mount["name"]}
            volume = next((each for each in spec["volumes"] if each["name"] == mount["name"]), claimed)
            self._mount(volume, root / mount["mountPath"].lstrip("/"), root)
        port = free_port()
        environment = {
            **os.environ,
            "REDELIVERY_KAFKA__BOOTSTRAP_SERVERS": str(self._secured.kafka["bootstrap.servers"]),
            "REDELIVERY_METRICS__PORT": str(port),
            "REDELIVERY_METRICS__HOST": "127.0.0.1",
        }
        for entry in container["env"]:
            value = entry.get("value", f"{name}-0")  # otherwise the name of the pod
            environment[entry["name"]] = f"{root}{value}" if value.startswith("/") else value
        entry = ["pipeline"] if container["image"] == "kafka-redelivery-spark" else []
        log = self._folder / f"{name}.log"
        with log.open("wb") as output:
            process = GuardedProcess(
                [sys.executable, *COMMAND, *entry, *container["args"], f"--config={root / 'app' / 'redelivery.yaml'}"],
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
            for file in (_DEPLOY / "kubernetes" / "config").iterdir():
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
            pod.process.wait(KILLED_S)
            print(f"--- {pod.log.name}\n{pod.log.read_text(encoding='utf-8', errors='replace')[-4000:]}")  # noqa: T201


@contextmanager
def namespace_of(secured: AuthenticatedKafka, folder: Path) -> Iterator[Namespace]:
    """Make the shipped users with their rights and the topics of the service, and start no process."""
    users = _users()
    secured.add_users(users)
    secured.grant(acl for acls in users.values() for acl in acls)
    secured.cluster.create(SOURCE, OUTPUT, partitions=2)
    found = Namespace(secured, folder)
    try:
        yield found
    finally:
        found.close()
        for topic in secured.cluster.topics():
            if topic in {SOURCE, OUTPUT, LETTERS} or topic.startswith("billing."):
                secured.cluster.delete(topic)
