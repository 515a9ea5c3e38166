"""Everything that the pages of a console share."""

from __future__ import annotations

import math
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import anyio
from anyio.to_thread import run_sync
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse

from kafka_redelivery.cli.console.access import Authentication, Role, Visitor
from kafka_redelivery.cli.console.job_book import JobBook, Jobs
from kafka_redelivery.cli.console.letters import (
    LIBRARY_ERRORS,
    IndexState,
    Kept,
    Letters,
    kept,
    read_letter,
)
from kafka_redelivery.cli.console.live import Broadcast, Polled, Problem
from kafka_redelivery.cli.console.options import ConsoleOptions
from kafka_redelivery.cli.console.rendering import Assets, Rendering
from kafka_redelivery.cli.console.searches import Searches
from kafka_redelivery.cli.console.tasks import Tasks
from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.operations.flow import Flow, FlowWatch
from kafka_redelivery.dead_letters.index.index import LetterRow
from kafka_redelivery.dead_letters.reading import StoredLetter
from kafka_redelivery.topology.cluster.acls import AclRole
from kafka_redelivery.topology.cluster.kafka_rights import (
    USER,
    Operation,
    PatternType,
    Resource,
    ResourceType,
    default_principal,
    kafka_command,
)
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.errors import NotAuthorisedError
from kafka_redelivery.transport.admin.preflight import TopologyLook, look_at_topology
from kafka_redelivery.transport.client_config import servers_of
from kafka_redelivery.transport.errors import TopicForbiddenError, TransportError

_Parameters = ParamSpec("_Parameters")
_Answer = TypeVar("_Answer")

_EVERY_S: Final = 2.0
_TOPOLOGY_EVERY_S: Final = 30.0
_STOP_S: Final = 2.0
_THREADS: Final = 8
"""Calls that block, at the same time."""

_LETTERS: Final = 4
"""Letters whose records are read at the same time."""

_STORIES: Final = 2
"""Lives of letters, and lists of waiting records, that are read at the same time."""

_EXPORTS: Final = 4
"""Exports at the same time. Each reads the topics with a client and an index of its own."""

_TURN_S: Final = 20.0
"""How long a request waits until it may read."""


@dataclass
class Console:
    """A console and what it knows."""

    settings: Settings
    base: Path
    """The folder of the configuration."""

    options: ConsoleOptions
    authentication: Authentication
    assets: Assets = field(default_factory=Assets)
    broadcast: Broadcast = field(default_factory=Broadcast)

    def __post_init__(self) -> None:
        """Prepare; :meth:`start` starts the threads."""
        if self.options.hide_payloads:
            self.settings = _without_values(self.settings)
        common = {
            "group": self.settings.group,
            "options": self.options,
            "host": socket.gethostname(),
            "logs_in": self.authentication.logs_in,
            "edits": self.settings.dead_letters.edit and not self.options.hide_payloads,
        }
        self.rendering = Rendering(self.assets, common)
        self.letters = Letters(self.settings, self.options, base=self.base)
        self.searches = Searches(self.settings, self.letters.stop)
        self.book = JobBook(self.settings)
        self.index: Polled[IndexState] = Polled(
            "index", self.letters.refresh, _EVERY_S, self._letters_changed, self.letters.rest
        )
        watch = FlowWatch(self.settings)
        self.flow: Polled[Flow] = Polled("flow", watch.look, _EVERY_S, self._flow_changed, watch.close)
        self.jobs: Polled[Jobs] = Polled("jobs", self.book.look, _EVERY_S, self._jobs_changed)
        self.topology: Polled[TopologyLook] = Polled(
            "topology", self._look_at_topology, _TOPOLOGY_EVERY_S, self._topology_changed
        )
        self.tasks = Tasks(self.settings, self.base, self.options.index, self._task_changed)
        self._threads = anyio.CapacityLimiter(_THREADS)
        self._any_number = anyio.CapacityLimiter(math.inf)
        self.letter_turns = anyio.CapacityLimiter(_LETTERS)
        self.story_turns = anyio.CapacityLimiter(_STORIES)
        self.export_turns = anyio.CapacityLimiter(_EXPORTS)
        self._told: dict[str, object] = {}
        self._started = False

    @property
    def polled(self) -> tuple[Polled[IndexState], Polled[Flow], Polled[Jobs]]:
        """What is kept current."""
        return self.index, self.flow, self.jobs

    @property
    def problem(self) -> Problem | None:
        """Why what is shown is not current: the oldest reason; ``None`` if it is."""
        problems = [each.problem for each in self.polled if each.problem is not None]
        return min(problems, default=None)

    def start(self) -> None:
        """Start to look at the group."""
        self._started = True
        for each in self.polled:
            each.start()

    def look_at_topology(self) -> None:
        """Keep the topology current from now on, while a page is open. It takes more requests than the rest."""
        if self._started:
            self.topology.start()

    def stop(self) -> None:
        """Stop; jobs that run here end after their chunk."""
        self.letters.stop.set()
        for each in (*self.polled, self.topology):
            each.stop()
        self.tasks.stop()
        for each in (*self.polled, self.topology):
            each.wait(_STOP_S)

    def look(self) -> None:
        """Note that a page is open."""
        for each in self.polled:
            each.look()

    def read_letter(self, row: LetterRow) -> StoredLetter:
        """Return a letter with its record; a page does not wait for a Kafka that is known to be away.

        Raises:
            RedriveError: it is not in its topic any more.
            TransportError: Kafka does not answer or denies access.
        """
        self.refuse_without_kafka()
        return read_letter(self.settings, row, self.index.value)

    def refuse_without_kafka(self) -> None:
        """Refuse what has to ask Kafka while it is known not to answer.

        Raises:
            TransportError: it does not.
        """
        problem = self.index.problem or self.flow.problem
        if problem is not None:
            raise TransportError(f"this is read from Kafka, which does not answer now: {problem.text}")

    async def in_thread(
        self, call: Callable[_Parameters, _Answer], *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> _Answer:
        """Call something that blocks."""
        return await run_sync(lambda: call(*args, **kwargs), limiter=self._threads)

    async def in_thread_of_its_own(
        self, call: Callable[_Parameters, _Answer], *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> _Answer:
        """Call something that reads records from Kafka, which may hang, in its :meth:`turn`."""
        return await run_sync(lambda: call(*args, **kwargs), limiter=self._any_number)

    @asynccontextmanager
    async def turn(self, turns: anyio.CapacityLimiter) -> AsyncIterator[None]:
        """Wait for one of a number of turns, and have it during the block.

        Raises:
            HTTPException: others have taken all turns for long.
        """
        turn = object()
        try:
            with anyio.fail_after(_TURN_S):
                await turns.acquire_on_behalf_of(turn)
        except TimeoutError:
            problem = "other records are being read, and that takes long; load the page again"
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, problem) from None
        try:
            yield
        finally:
            turns.release_on_behalf_of(turn)

    def page(self, request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:  # noqa: ANN401
        """Return a page."""
        return self.rendering.page(template, status, **self.context(request), **context)

    def context(self, request: Request) -> Mapping[str, Any]:
        """Return what every page names."""
        visitor: Visitor | None = request.scope.get("visitor")
        acts = visitor is not None and not self.options.read_only
        return {
            "path": request.url.path,
            "visitor": visitor,
            "seen": getattr(request.state, "seen", ""),
            "may_operate": acts and visitor is not None and visitor.user.may(Role.OPERATOR),
            "may_purge": acts and visitor is not None and visitor.user.may(Role.ADMIN),
            **self.frame(),
        }

    def kept(self) -> Kept | None:
        """Return how many letters there are, by topic and by state; ``None`` if the index cannot say it now."""
        try:
            return kept(self.letters)
        except LIBRARY_ERRORS:
            return None

    def frame(self) -> dict[str, Any]:
        """Return what the banner names."""
        flow = self.flow.value
        return {
            "problem": self.problem,
            "indexed": self.letters.is_ready,
            "reading": self.letters.reading,
            "pauses": () if flow is None else flow.status.pausing.pauses,
        }

    def _flow_changed(self) -> None:
        self._banner()
        if self.broadcast.streams:
            flow = self.rendering.text("parts/flow.html", flow=self.flow.value, kept=self.kept(), **self.frame())
            self.broadcast.publish("flow", flow)
            self.broadcast.publish("waiting", str(self.flow.at_ms))

    def _letters_changed(self) -> None:
        self._banner()
        self._tell("letters", self.index.value.state if self.index.value else 0)

    def _look_at_topology(self) -> TopologyLook:
        """Look at the topology; an error about rights has the line that grants them."""
        try:
            return look_at_topology(self.settings, wall_clock_ms())
        except (NotAuthorisedError, TopicForbiddenError) as error:
            operation, kind, names = _missing_right(error)
            if not names:
                raise
            kafka = self.settings.kafka
            user = kafka.get("sasl.username")
            principal = default_principal(self.settings.group, AclRole.CONSOLE) if user is None else f"{USER}{user}"
            resources = [Resource(kind, PatternType.LITERAL, name) for name in names]
            raise TransportError(
                f"{error}\n{kafka_command(servers_of(kafka), principal, [operation], resources)}"
            ) from None

    def _topology_changed(self) -> None:
        problem = self.topology.problem
        self._tell("topology", (self.topology.at_ms, problem and problem.text))

    def _jobs_changed(self) -> None:
        self._banner()
        jobs = self.jobs.value
        if jobs is not None:
            self._tell("jobs", [(each.document, round(each.rate, 1)) for each in jobs.jobs.values()])
            self._tell("trail", len(jobs.trail))

    def _task_changed(self) -> None:
        self.broadcast.publish("jobs", "task")

    def _banner(self) -> None:
        self._tell("banner", self.rendering.text("parts/banner.html", **self.frame()), whole=True)

    def _tell(self, event: str, state: object, *, whole: bool = False) -> None:
        """Send an event if a state is another than the last time."""
        if self._told.get(event) != state:
            self._told[event] = state
            self.broadcast.publish(event, str(state) if whole else "changed")


def _missing_right(error: NotAuthorisedError | TopicForbiddenError) -> tuple[Operation, ResourceType, Sequence[str]]:
    """Return what an error says that the Kafka user lacks; without names if it is not known."""
    if isinstance(error, TopicForbiddenError):
        return Operation.READ, ResourceType.TOPIC, [error.topic]
    if error.group:
        return Operation.DESCRIBE, ResourceType.GROUP, [error.group]
    return Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, error.unreadable


def _without_values(settings: Settings) -> Settings:
    """Return settings with which no index keeps keys, header values and values on the disk; one that has them goes."""
    index = settings.dead_letters.index.model_copy(update={"values": False})
    letters = settings.dead_letters.model_copy(update={"index": index})
    return settings.model_copy(update={"dead_letters": letters})
