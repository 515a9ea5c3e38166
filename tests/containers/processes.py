"""Workers and schedulers in containers, run as deploy/ runs them; the tests read their topics from outside."""

import time
from pathlib import Path
from typing import Any, Final

from docker.models.containers import Container
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from tests.containers.kafka import INTERNAL
from tests.scenarios.running import Group, Role
from tests.scenarios.scraping import get
from tests.scenarios.waiting import LONG_S, until

PORT: Final = 9404
GRACE_S: Final = 60
"""Seconds that an orchestrator gives a container between SIGTERM and SIGKILL."""

SHUTDOWN: Final = "50s"
"""The group's own shutdown time-out, which is shorter."""

SESSION_S: Final = 240
"""The session time-out of all members. A test that waits for one has failed long before: after ``LONG_S``."""

LOCKED_DOWN: Final[dict[str, Any]] = {
    "read_only": True,
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges"],
    "tmpfs": {"/tmp": "size=16m,mode=1777"},  # noqa: S108 - in the container
}

_LAST_LINE: Final = "exit code: "
_WITH_LAST_LINE: Final = f'exec 2>&1; "$@"; echo "{_LAST_LINE}$?"'


class Node:
    """A container of a group."""

    def __init__(self, container: DockerContainer) -> None:
        self._started = container.start()
        self.container: Container = container.get_wrapped_container()

    def probe(self, path: str) -> int:
        """Return the HTTP status of a probe, or 0 without an answer within a second."""
        host, port = self._started.get_container_host_ip(), self._started.get_exposed_port(PORT)
        return get(int(port), path, host=host, within_s=1)[0]

    def ready(self) -> None:
        """Wait until its readiness probe succeeds."""
        until(
            lambda: self.probe("/readyz") == 200 or self._ended(), f"{self.container.name} is ready:\n{self.log_tail}"
        )

    def answers(self, path: str) -> None:
        """Wait until a probe succeeds: on a busy machine an answer can take longer than a second."""
        until(lambda: self.probe(path) == 200, f"{self.container.name} answers {path}")

    def run(self, *command: str) -> tuple[int, str]:
        """Run a command that may be repeated in the container; return its exit code and output."""

        def whole() -> str:
            output = self._started.exec(["sh", "-c", _WITH_LAST_LINE, "sh", *command]).output.decode()
            return output if _LAST_LINE in output else ""

        # On a busy machine an engine can lose the output of a command that ends at once.
        output, _, code = until(whole, f"the output of {command} is whole").rpartition(_LAST_LINE)
        return int(code), output

    def stop(self) -> tuple[int, float]:
        """Send SIGTERM, and SIGKILL after the grace period, as an orchestrator does; return exit code and seconds."""
        asked = time.monotonic()
        self.container.stop(timeout=GRACE_S)
        took = time.monotonic() - asked
        return int(self.container.wait(timeout=LONG_S)["StatusCode"]), took

    def kill(self) -> None:
        """Kill the container with SIGKILL."""
        self.container.kill("SIGKILL")
        self.container.wait(timeout=LONG_S)

    def start_again(self) -> None:
        """Restart it under the same name, as an orchestrator does."""
        self.container.start()

    @property
    def log_tail(self) -> str:
        """The end of its log."""
        return str(self.container.logs(tail=40).decode(errors="replace"))

    def remove(self) -> None:
        """Remove it in any state."""
        self._started.stop()

    def _ended(self) -> bool:
        self.container.reload()
        if self.container.status == "exited":
            raise AssertionError(f"{self.container.name} has ended:\n{self.log_tail}")
        return False


class ContainerGroup:
    """Starts the containers of a :class:`Group`, with its configuration and a handler mounted at ``/app``."""

    def __init__(self, group: Group, image: str, network: Network) -> None:
        self.group = group
        self.nodes: list[Node] = []
        self._image = image
        self._network = network

    def prepare(self, *, slots: int = 1, redeliveries: int = 6, delay_ms: int = 200) -> None:
        """Create topics and configuration with a maximum of redeliveries and a fixed delay."""
        policy = {
            "maximumRedeliveries": redeliveries,
            "initialRedeliveryDelay": delay_ms,
            "redeliveryDelay": delay_ms,
        }
        self.group.prepare(
            partitions=4,
            handler={"callable": "handlers:scripted", "slots": slots},
            limits={"shutdownTimeout": SHUTDOWN, "rebalanceTimeout": "5s"},
            policyEntry={"redeliveryPolicy": policy},
            kafka={"session.timeout.ms": 1000 * SESSION_S},
        )

    def worker(self, instance: str | None = "w1") -> Node:
        """Start a worker."""
        return self.start("worker", instance)

    def scheduler(self, instance: str | None = "s1") -> Node:
        """Start a scheduler."""
        return self.start("scheduler", instance)

    def start(self, role: Role, instance: str | None, *, servers: str = INTERNAL) -> Node:
        """Start a container: read-only, without capabilities, with the image's user."""
        named = {} if instance is None else {"REDELIVERY_INSTANCE": instance}
        container = (
            DockerContainer(self._image, command=role, network=self._network)
            .with_envs(OUTPUT=self.group.output, REDELIVERY_KAFKA__BOOTSTRAP_SERVERS=servers, **named)
            .with_volume_mapping(self.group.file, "/app/redelivery.yaml")
            .with_volume_mapping(Path(__file__).parent / "app" / "handlers.py", "/app/handlers.py")
            .with_exposed_ports(PORT)
            .with_kwargs(**{key: value for key, value in LOCKED_DOWN.items() if key != "tmpfs"})
        )
        container.tmpfs = dict(LOCKED_DOWN["tmpfs"])
        node = Node(container)
        self.nodes.append(node)
        return node

    def stop(self) -> None:
        """Stop all running containers, which must end with exit code 0."""
        for node in self.nodes:
            node.container.reload()
            if node.container.status == "running":
                node.ready()  # one that is still starting would end with another exit code
                code, _ = node.stop()
                assert code == 0, node.log_tail

    def close(self) -> None:
        """Remove all containers and print the ends of their logs."""
        for node in self.nodes:
            print(f"--- {node.container.name}\n{node.log_tail}")  # noqa: T201 - pytest shows it with a failure
            node.remove()
