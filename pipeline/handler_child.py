"""The inside of the process that runs the handler: records in by the hundred, their outcomes out.

Which record it is at stands in memory that it shares with its parent, so that its death is the failure of that record
and of no other. It ends when its pipe does, or its standard input, which its parent holds open and never writes to.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import signal
import struct
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NamedTuple, cast

import pyarrow as pa

from consumers.clock import monotonic_s, wall_clock_ms
from consumers.codecs import codecs
from consumers.errors import HandlerLoadError
from consumers.handler import Handler, load_handler
from consumers.lane import Lane
from consumers.logs import log_to_stderr
from consumers.processor import Processor
from consumers.routes import Route
from consumers.unit import Assigned, Unit
from pipeline.rows import Rows
from serdes.errors import SerdeError
from topology.decision import Failure, FailureKind
from topology.lineage import Lineage
from topology.progress import Progress
from topology.settings import HandlerSection, Settings
from transport.protocols import Copy, Message, Partition
from transport.topics import TopicDirectory

_STANDING: Final = struct.Struct("=qqd")
STANDING_BYTES: Final = _STANDING.size
_NOWHERE: Final = -1


class Standing:
    """Where the child is: the records ``first`` and following, begun at a time. One writes, one reads."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory

    def at(self, first: int, count: int = 1) -> None:
        """These are being handled from now on."""
        _STANDING.pack_into(self._memory, 0, first, count, monotonic_s())

    def nowhere(self) -> None:
        """Nothing is being handled."""
        _STANDING.pack_into(self._memory, 0, _NOWHERE, 0, 0.0)

    def read(self) -> tuple[int, int, float] | None:
        """Which record is being handled, how many with it, and since when (monotonic); ``None`` = nothing is."""
        found = _STANDING.unpack_from(self._memory, 0)
        while True:  # it is written while it is read: two equal readings are a whole one
            again = _STANDING.unpack_from(self._memory, 0)
            if again == found:
                return None if found[0] == _NOWHERE else (int(found[0]), int(found[1]), float(found[2]))
            found = again


@dataclass(frozen=True, slots=True)
class Setup:
    """What such a process is for."""

    settings: Settings
    base: Path
    """The folder of the configuration."""

    search_path: tuple[str, ...]
    """Where modules are found, as in the parent."""

    log_level: int
    log_format: str

    @property
    def section(self) -> HandlerSection:
        """The handler's."""
        return cast("HandlerSection", self.settings.handler)

    def routes(self) -> dict[str, tuple[Route, bool]]:
        """By topic: its route, and whether it is a ready topic.

        Raises:
            SerdeError: a schema cannot be had.
        """
        found: dict[str, tuple[Route, bool]] = {}
        for source in self.settings.sources:
            route = Route.of(self.settings, source.topic, *codecs(source, self.base))
            found |= {route.source: (route, False), route.ready: (route, True)}
        return found


class Done(NamedTuple):
    """What became of the next records of a run; indexes count from the first of these."""

    number: int
    failures: Sequence[tuple[int, Failure]] = ()
    outputs: Sequence[tuple[int, list[Copy]]] = ()
    lineages: Sequence[Lineage] = ()
    lateness: Sequence[tuple[int, int]] = ()
    seconds: Sequence[float] = ()

    @property
    def critical(self) -> bool:
        """Whether nothing may be done after it."""
        return bool(self.failures) and self.failures[-1][1].kind is FailureKind.CRITICAL


class _Watched:
    """Messages that say when they are taken."""

    def __init__(self, messages: Sequence[Message], standing: Standing) -> None:
        self._messages = messages
        self._standing = standing

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, index: slice) -> Iterator[Message]:
        at = self._standing.at
        for number, message in enumerate(self._messages[index], start=index.start):
            at(number)
            yield message


def main(pipe_descriptor: int, memory_descriptor: int) -> None:
    """Be such a process."""
    pipe = Connection(pipe_descriptor)
    with mmap.mmap(memory_descriptor, STANDING_BYTES) as memory:
        setup: Setup = pipe.recv()
        _serve(setup, pipe, Standing(memory))


def _serve(setup: Setup, pipe: Connection, standing: Standing) -> None:
    """Load the handler, say so, and run it over whatever comes.

    The first message is ``None``, or why the handler cannot be loaded and how to mend it; then there are as many
    :class:`Done` for each run of records as it takes.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the parent says when to end
    threading.Thread(target=_end_with_parent, daemon=True).start()
    log_to_stderr(setup.log_level, setup.log_format)
    sys.path[:] = setup.search_path
    with ExitStack() as stack, suppress(EOFError, BrokenPipeError):
        try:
            runs = _Runs(setup, stack, standing)
        except HandlerLoadError as error:
            pipe.send((error.problem, error.mend))
            return
        except SerdeError as error:
            pipe.send((str(error), "see to the schemas in its environment"))
            return
        pipe.send(None)
        while True:
            place: Partition = pipe.recv()
            with pa.ipc.open_stream(pipe.recv_bytes()) as stream:
                rows = Rows(place, stream.read_next_batch())
            for done in runs.run(rows):
                pipe.send(done)


class _Runs:
    """Runs the handler over runs of records, as a worker's slot would."""

    def __init__(self, setup: Setup, stack: ExitStack, standing: Standing) -> None:
        self._standing = standing
        self._routes = setup.routes()
        handler = load_handler(setup.section.callable, setup.section.not_retryable, stack)
        if handler.asynchronous:
            handler = _plain(handler, stack.enter_context(asyncio.Runner()))
        outputs = {output.topic: codecs(output, setup.base) for output in setup.settings.outputs}
        directory = TopicDirectory(setup.settings.kafka)
        # Past its deadline this process is killed: nothing in it has to look at the clock for that.
        self._processor = Processor(handler, outputs, wall_clock_ms, None, directory)

    def run(self, rows: Rows) -> Iterator[Done]:
        route, redelivered = self._routes[rows.place.topic]
        lane = Lane(Assigned(rows.place, route, redelivered, Progress(0)), exclusive=True)
        messages = cast("list[Message]", _Watched(list(rows), self._standing))
        position = 0
        while position < len(messages):
            unit = Unit(lane, messages, position)
            self._processor.run(unit)
            self._standing.nowhere()
            done = _told(unit, position)
            yield done
            if done.critical:
                return
            position = unit.position


def _told(unit: Unit, first: int) -> Done:
    return Done(
        unit.position - first,
        [(index - first, failure) for index, failure in unit.failures],
        [(index - first, copies) for index, copies in unit.outputs],
        unit.lineages,
        unit.lateness,
        unit.seconds,
    )


def _plain(handler: Handler, runner: asyncio.Runner) -> Handler:
    """An asynchronous handler as a plain one: a task handles one record after the other."""

    def call(*arguments: object) -> object:
        return runner.run(handler.call(*arguments))

    return replace(handler, call=call, asynchronous=False)


def _end_with_parent() -> None:
    os.read(0, 1)
    os._exit(1)
