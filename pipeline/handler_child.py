"""The inside of the process that runs the handler: records in by the hundred, their outcomes out.

Which record it is at stands in memory that it shares with its parent, so that its death is the failure of that record
and of no other. It ends when its pipe does, or its standard input, which its parent holds open and never writes to.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import signal
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import cast

import pyarrow as pa

from consumers.clock import wall_clock_ms
from consumers.codecs import codecs
from consumers.collected import collected_rarely
from consumers.errors import HandlerLoadError
from consumers.handler import Handler, load_handler
from consumers.lane import Lane
from consumers.logs import log_to_stderr
from consumers.processor import Processor
from consumers.routes import Route
from consumers.unit import Assigned, Unit
from pipeline.batch_context import HEADERS, Emitted
from pipeline.done import Done
from pipeline.messages import receive, send
from pipeline.rows import Rows
from pipeline.setup import Setup
from pipeline.standing import STANDING_BYTES, Standing
from pipeline.vectorized import VectorRuns
from serdes.errors import SerdeError
from topology.headers import HeaderList
from topology.progress import Progress
from transport.protocols import Copy, Message
from transport.topics import TopicDirectory


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
            runs = _runs(setup, stack, standing)
        except HandlerLoadError as error:
            pipe.send((error.problem, error.mend))
            return
        except SerdeError as error:
            pipe.send((str(error), "see to the schemas in its environment"))
            return
        pipe.send(None)
        stack.enter_context(collected_rarely())
        while True:
            rows, singly = receive(pipe)
            for done in runs(rows, singly):
                send(pipe, done)


def _runs(setup: Setup, stack: ExitStack, standing: Standing) -> Callable[[Rows, bool], Iterator[Done]]:
    """What runs the handler over a run of records."""
    routes = setup.routes()
    handler = load_handler(setup.section.callable, setup.section.not_retryable, stack)
    if handler.asynchronous:
        handler = _plain(handler, stack.enter_context(asyncio.Runner()))
    outputs = {output.topic: codecs(output, setup.base) for output in setup.settings.outputs}
    directory = TopicDirectory(setup.settings.kafka)
    # Past its deadline this process is killed: nothing in it has to look at the clock for that.
    processor = Processor(handler, outputs, wall_clock_ms, None, directory)
    if setup.section.vectorized:
        vectors = VectorRuns(handler, processor, directory, standing)
        return lambda rows, singly: vectors.run(rows, *routes[rows.place.topic], most=1 if singly else len(rows))
    return lambda rows, _: _one_by_one(rows, *routes[rows.place.topic], processor, standing)


def _one_by_one(
    rows: Rows,
    route: Route,
    redelivered: bool,  # noqa: FBT001 - as routes have it
    processor: Processor,
    standing: Standing,
) -> Iterator[Done]:
    """As a worker's slot would; told of as it is done."""
    lane = Lane(Assigned(rows.place, route, redelivered, Progress(0)), exclusive=True)
    messages = cast("list[Message]", _Watched(list(rows), standing))
    position = 0
    while position < len(messages):
        unit = Unit(lane, messages, position)
        processor.run(unit)
        standing.nowhere()
        done = _told(unit, position)
        yield done
        if done.critical:
            return
        position = unit.position


def _told(unit: Unit, first: int) -> Done:
    return Done(
        unit.position - first,
        [(index - first, failure) for index, failure in unit.failures],
        unit.lineages,
        unit.lateness,
        unit.seconds,
        list(_columns(unit, first)) if unit.outputs else (),
    )


def _columns(unit: Unit, first: int) -> Iterator[Emitted]:
    """The outputs as Arrow columns, which travel faster than so many objects; in order for each place."""
    places: defaultdict[tuple[str, int | None], list[tuple[int, Copy]]] = defaultdict(list)
    for index, copies in unit.outputs:
        for copy in copies:
            places[copy.topic, copy.partition].append((index - first, copy))
    for (topic, partition), found in places.items():
        columns = [
            pa.array([row for row, _ in found], pa.int32()),
            pa.array([copy.key for _, copy in found], pa.binary()),
            pa.array([copy.value for _, copy in found], pa.binary()),
            _headers([copy.headers for _, copy in found]),
        ]
        yield Emitted(topic, partition, pa.RecordBatch.from_arrays(columns, ["row", "key", "value", "headers"]))


def _headers(lists: Sequence[HeaderList | None]) -> pa.Array:
    if not any(lists):
        return pa.nulls(len(lists), HEADERS)
    pairs = [None if not each else [{"key": name, "value": value} for name, value in each] for each in lists]
    return pa.array(pairs, HEADERS)


def _plain(handler: Handler, runner: asyncio.Runner) -> Handler:
    """An asynchronous handler as a plain one: a task handles one record after the other."""

    def call(*arguments: object) -> object:
        return runner.run(handler.call(*arguments))

    return replace(handler, call=call, asynchronous=False)


def _end_with_parent() -> None:
    os.read(0, 1)
    os._exit(1)
