"""The test bed of the benchmarks: one broker, and groups of real processes on it."""

import json
import os
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_redelivery.topology.cluster.changes import changes
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.preflight import survey
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.bench.actor import Actor
from tests.bench.feed import feed
from tests.bench.handlers import PARAMETERS
from tests.bench.options import Options
from tests.bench.usage import Usage, usage
from tests.scenarios.cluster import Cluster
from tests.scenarios.collector import collecting
from tests.scenarios.running import COMMAND, Process, Role

_LOOK_S = 0.002


@dataclass(slots=True)
class Bed:
    """A broker and a folder for all runs of a command."""

    kafka: EmbeddedKafka
    folder: Path
    on_progress: Any = None
    """Called with a line about the current step."""

    cluster: Cluster = field(init=False)
    """The broker as seen from outside the product."""

    def __post_init__(self) -> None:
        self.cluster = Cluster(self.servers)

    def report_progress(self, what: str) -> None:
        """Report the current step."""
        if self.on_progress is not None:
            self.on_progress(what)

    @property
    def servers(self) -> str:
        """The address of the broker."""
        return self.kafka.bootstrap_servers

    def broker(self) -> Usage:
        """Return what the broker has used so far."""
        return usage(self.kafka.pid)

    def topic(self, what: str, partitions: int) -> str:
        """Create a topic with a unique name."""
        name = f"{what}-{uuid.uuid4().hex[:8]}"
        self.cluster.create(name, partitions=partitions)
        return name

    def fed(self, n: int, options: Options) -> str:
        """Create a source topic with ``n`` records."""
        self.report_progress(f"writing {n:,} records")
        name = self.topic("source", options.partitions)
        feed(self.servers, name, n, value_bytes=options.value_bytes, keys=options.keys)
        return name

    def warm_up(self, options: Options) -> None:
        """Let the broker run some hundred transactions; until its code is compiled, each takes many times as long."""
        n, batch = (1_000, 20) if options.quick else (15_000, 30)
        source = self.fed(n, options)
        self.report_progress("warming the broker up")
        self.act("bare:txcopy", source=source, target=self.topic("warm", options.partitions), n=n, batch=batch)

    def act(self, function: str, **parameters: object) -> dict[str, Any]:
        """Run a function of this package in another process, on this broker, and return its result."""
        return Actor(function, servers=self.servers, **parameters).result()

    def start(self, function: str, **parameters: object) -> Actor:
        """Start a function like :meth:`act`, without waiting."""
        return Actor(function, servers=self.servers, **parameters)

    @contextmanager
    def team(self, source: str, handler: str, options: Options, **how: Any) -> Iterator["Team"]:  # noqa: ANN401 - see Team
        """Create a consumer group with its topics; on exit its processes end, and its topics are deleted."""
        name = how.pop("name", f"group-{uuid.uuid4().hex[:8]}")
        folder = self.folder / name
        folder.mkdir()
        team = Team(self, name, source, folder)
        team.configure(handler, options, **how)
        try:
            with ExitStack() as stack:
                if options.otel:
                    collector = stack.enter_context(collecting(lambda _: None))
                    team.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.url
                yield team
        except BaseException:
            for process in team.processes:
                sys.stderr.write(f"--- {process.name}\n{process.log[-3000:]}\n")
            raise
        finally:
            for process in team.processes:
                process.end()
        # A broker of this size does not carry the partitions of many wide groups.
        self.cluster.delete(*(each for each in self.cluster.topics() if each.startswith(f"{name}.")))


@dataclass(slots=True)
class Team:
    """A consumer group with its configuration, topics, worker and scheduler."""

    bed: Bed
    name: str
    source: str
    folder: Path
    settings: Settings = field(init=False)
    processes: list[Process] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    """Further variables of the processes."""

    _parameters: dict[str, object] = field(default_factory=dict)

    def configure(
        self,
        handler: str,
        options: Options,
        *,
        parameters: Mapping[str, object] | None = None,
        **sections: Any,  # noqa: ANN401
    ) -> None:
        """Write the configuration and create the topics.

        Args:
            handler: a class of :mod:`tests.bench.handlers`, or ``module:Class`` of this package.
            options: mode and slots.
            parameters: given to the handler through its environment, with the folder.
            sections: sections of the configuration.
        """
        self._parameters = {"folder": str(self.folder), **(parameters or {})}
        where = handler if ":" in handler else f"handlers:{handler}"
        how = {"callable": f"tests.bench.{where}", "slots": options.slots} | sections.pop("handler_section", {})
        if options.persist_counts:
            how["persistDeliveryCountBeforeDelivery"] = True
        kafka = {"bootstrap.servers": self.bed.servers} | sections.pop("kafka", {})
        whole = {
            "group": self.name,
            "mode": options.mode,
            "kafka": kafka,
            "sources": [{"topic": self.source}],
            "handler": how,
            "journal": options.journal,
            "topics": {} if options.max_partitions is None else {"maxPartitions": options.max_partitions},
            "deadLetters": {"index": {"path": str(self.folder / "index")}},
            **sections,
        }
        # JSON is YAML.
        self.file.write_text(json.dumps(whole), encoding="utf-8")
        self.settings = load_settings(self.file.read_text(encoding="utf-8"))
        admin = ClusterAdmin(self.settings.kafka)
        admin.apply(changes(*survey(admin, self.settings)))

    @property
    def file(self) -> Path:
        """The configuration file."""
        return self.folder / "redelivery.yaml"

    @property
    def ready(self) -> str:
        """The ready topic."""
        return self.settings.naming().ready_topic(self.source)

    @property
    def dead_letters(self) -> str:
        """The dead-letter topic."""
        return self.settings.naming().dead_letter_topic("DLQ.{topic}", self.source)

    def start(
        self, role: Role, instance: str | None = "one", *, program: Sequence[str] = COMMAND, wait: bool = True
    ) -> Process:
        """Start a worker or scheduler; with ``wait``, return when it has partitions."""
        command = [*program, role, "--config", str(self.file), "--log-level", "warning"]
        if instance is not None:
            command += ["--set", f"instance={instance}"]
        environment = {**os.environ, **self.environment, PARAMETERS: json.dumps(self._parameters)}
        name = f"{role}-{instance or len(self.processes)}"
        process = Process(name, command, environment, self.folder / f"{name}.log")
        self.processes.append(process)
        if wait:
            group = self.name if role == "worker" else f"{self.name}.scheduler"
            cluster = self.bed.cluster
            self.until(lambda: any(cluster.members(group).values()), f"the {role} has partitions", within_s=120)
        return process

    def until(self, condition: Any, what: str, *, within_s: float = 300) -> None:  # noqa: ANN401 - any callable
        """Poll the condition every 2 ms while all processes live.

        Raises:
            RuntimeError: a process has ended, or ``within_s`` is over.
        """
        deadline = time.monotonic() + within_s
        looked = 0
        while not condition():
            time.sleep(_LOOK_S)
            looked += 1
            if looked % 100 == 0:
                for process in self.processes:
                    if not process.running:
                        raise RuntimeError(f"{process.name} has ended:\n{process.log[-3000:]}")
                if time.monotonic() > deadline:
                    raise RuntimeError(f"not within {within_s:g} s: {what}")

    def until_reached(self, within_s: float = 300) -> None:
        """Wait until the handler has seen its parameter ``n`` of records."""
        self.until((self.folder / "reached").exists, "all records are handled", within_s=within_s)

    def stop(self) -> None:
        """Stop all processes, which write their measurements as they end."""
        for process in self.processes:
            if process.running:
                process.terminate()
        for process in self.processes:
            if process.running:
                process.wait(40)

    def report(self) -> dict[str, Any]:
        """Return what the handler measured; its worker must have ended in order."""
        found: dict[str, Any] = json.loads((self.folder / "report.json").read_text(encoding="utf-8"))
        return found
