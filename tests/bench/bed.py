"""Where runs take place: one broker, and groups of real processes on it."""

import json
import os
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.actor import Actor
from tests.bench.feed import feed
from tests.bench.handlers import PARAMETERS
from tests.bench.options import Options
from tests.bench.usage import Usage, usage
from tests.scenarios.cluster import Cluster
from tests.scenarios.running import COMMAND, Process, Role
from topology.changes import changes
from topology.configuration import load_settings
from topology.settings import Settings
from transport.admin import ClusterAdmin
from transport.embedded import EmbeddedKafka
from transport.preflight import survey

_LOOK_S = 0.002


@dataclass(slots=True)
class Bed:
    """One broker and a folder, for all runs of a command."""

    kafka: EmbeddedKafka
    folder: Path
    told: Any = None
    """Called with a line about what happens now."""

    cluster: Cluster = field(init=False)
    """The broker as a bystander sees it."""

    def __post_init__(self) -> None:
        self.cluster = Cluster(self.servers)

    def say(self, what: str) -> None:
        """Tell whoever waits."""
        if self.told is not None:
            self.told(what)

    @property
    def servers(self) -> str:
        """Where the broker listens."""
        return self.kafka.bootstrap_servers

    def broker(self) -> Usage:
        """What the broker has used so far."""
        return usage(self.kafka.pid)

    def topic(self, what: str, partitions: int) -> str:
        """Make a topic with a name of its own."""
        name = f"{what}-{uuid.uuid4().hex[:8]}"
        self.cluster.create(name, partitions=partitions)
        return name

    def fed(self, n: int, options: Options) -> str:
        """A source topic with ``n`` records in it."""
        self.say(f"writing {n:,} records")
        name = self.topic("source", options.partitions)
        feed(self.servers, name, n, value_bytes=options.value_bytes, keys=options.keys)
        return name

    def warm_up(self, options: Options) -> None:
        """Have the broker do some hundred transactions: until its code is compiled, each takes many times as long."""
        n, batch = (1_000, 20) if options.quick else (15_000, 30)
        source = self.fed(n, options)
        self.say("warming the broker up")
        self.act("bare:txcopy", source=source, target=self.topic("warm", options.partitions), n=n, batch=batch)

    def act(self, function: str, **parameters: object) -> dict[str, Any]:
        """Run a function of this package elsewhere, on this broker, and wait for its answer."""
        return Actor(function, servers=self.servers, **parameters).result()

    def start(self, function: str, **parameters: object) -> Actor:
        """The same without waiting."""
        return Actor(function, servers=self.servers, **parameters)

    @contextmanager
    def team(self, source: str, handler: str, options: Options, **how: Any) -> Iterator["Team"]:  # noqa: ANN401 - see Team
        """A consumer group of its own, with all its topics; its processes end on exit."""
        name = how.pop("name", f"group-{uuid.uuid4().hex[:8]}")
        folder = self.folder / name
        folder.mkdir()
        team = Team(self, name, source, folder)
        team.configure(handler, options, **how)
        try:
            yield team
        except BaseException:
            for process in team.processes:
                sys.stderr.write(f"--- {process.name}\n{process.log[-3000:]}\n")
            raise
        finally:
            for process in team.processes:
                process.end()


@dataclass(slots=True)
class Team:
    """One consumer group: its configuration, its topics, its worker and scheduler."""

    bed: Bed
    name: str
    source: str
    folder: Path
    settings: Settings = field(init=False)
    processes: list[Process] = field(default_factory=list)
    _told: dict[str, object] = field(default_factory=dict)

    def configure(
        self,
        handler: str,
        options: Options,
        *,
        told: Mapping[str, object] | None = None,
        **sections: Any,  # noqa: ANN401
    ) -> None:
        """Write the configuration and make the topics.

        Args:
            handler: a class of :mod:`tests.bench.handlers`, or ``module:Class`` of this package.
            options: mode, slots.
            told: what the handler finds in its environment, beside the folder.
            sections: of the configuration.
        """
        self._told = {"folder": str(self.folder), **(told or {})}
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
            **sections,
        }
        # JSON is YAML.
        self.file.write_text(json.dumps(whole), encoding="utf-8")
        self.settings = load_settings(self.file.read_text(encoding="utf-8"))
        admin = ClusterAdmin(self.settings.kafka)
        admin.apply(changes(*survey(admin, self.settings)))

    @property
    def file(self) -> Path:
        """The configuration."""
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
        environment = {**os.environ, PARAMETERS: json.dumps(self._told)}
        name = f"{role}-{instance or len(self.processes)}"
        process = Process(name, command, environment, self.folder / f"{name}.log")
        self.processes.append(process)
        if wait:
            group = self.name if role == "worker" else f"{self.name}.scheduler"
            cluster = self.bed.cluster
            self.until(lambda: any(cluster.members(group).values()), f"the {role} has partitions", within_s=60)
        return process

    def until(self, condition: Any, what: str, *, within_s: float = 300) -> None:  # noqa: ANN401 - any callable
        """Wait, looking every few ms, as long as all processes live.

        Raises:
            RuntimeError: one has ended, or the time is over.
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
        """Wait until the handler has seen as many records as it was told to expect."""
        self.until((self.folder / "reached").exists, "all records are handled", within_s=within_s)

    def stop(self) -> None:
        """End all processes in order, and let them write down what they measured."""
        for process in self.processes:
            if process.running:
                process.terminate()
        for process in self.processes:
            if process.running:
                process.wait(40)

    def report(self) -> dict[str, Any]:
        """What the handler measured; there once its worker has ended in order."""
        found: dict[str, Any] = json.loads((self.folder / "report.json").read_text(encoding="utf-8"))
        return found
