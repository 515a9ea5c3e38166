"""The program of the handler's process in a Spark task: it receives runs of records and returns their outcomes.

The child publishes the record that it is handling in a :class:`SharedPosition`. If it dies, exactly that record failed.
"""

from __future__ import annotations

import asyncio
import mmap
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import cast

import pyarrow as pa

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.lane import Lane
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.child_process import serve
from kafka_redelivery.consumers.handlers.destinations import Destinations
from kafka_redelivery.consumers.handlers.handler import Handler, load_handler
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.process.garbage_collection import infrequent_garbage_collection
from kafka_redelivery.consumers.routes import Route, codecs
from kafka_redelivery.pipeline.handler.batch_context import HEADERS
from kafka_redelivery.pipeline.handler.config import HandlerConfig
from kafka_redelivery.pipeline.handler.messages import receive, send
from kafka_redelivery.pipeline.handler.outcomes import Emitted, Outcomes
from kafka_redelivery.pipeline.handler.rows import Rows
from kafka_redelivery.pipeline.handler.shared_position import SHARED_BYTES, SharedPosition
from kafka_redelivery.pipeline.handler.vectorized import VectorRuns
from kafka_redelivery.serdes.errors import SerdeError
from kafka_redelivery.topology.wire.headers import HeaderList
from kafka_redelivery.topology.wire.progress import Progress
from kafka_redelivery.transport.admin.topic_metadata import TopicMetadataCache
from kafka_redelivery.transport.protocols import Message, ProducerRecord

_Run = Callable[[Rows, bool], Iterator[Outcomes]]


def main(pipe_descriptor: int, memory_descriptor: int) -> None:
    """Run the child.

    Args:
        pipe_descriptor: file descriptor of the pipe to the parent.
        memory_descriptor: file descriptor of the memory of the shared position.
    """
    pipe = Connection(pipe_descriptor)
    with mmap.mmap(memory_descriptor, SHARED_BYTES) as memory:
        config: HandlerConfig = pipe.recv()

        def load(stack: ExitStack) -> Callable[[], None]:
            run = _load(config, stack, SharedPosition(memory))
            stack.enter_context(infrequent_garbage_collection())
            return lambda: _answer(pipe, run)

        serve(pipe, load, log_level=config.log_level, log_format=config.log_format)


def _load(config: HandlerConfig, stack: ExitStack, shared_position: SharedPosition) -> _Run:
    """Load the handler, and return the function that runs it over records."""
    target = config.section.callable
    try:
        routes = config.routes()
        handler = load_handler(target, config.section.not_retryable, stack, config.settings.failure_details)
        outputs = {output.topic: codecs(output, config.base) for output in config.settings.outputs}
    except SerdeError as error:
        raise HandlerLoadError(target, str(error), "see to the schemas in its environment") from error
    if handler.asynchronous:
        handler = _as_synchronous(handler, stack.enter_context(asyncio.Runner()))
    topics = Destinations(config.settings, TopicMetadataCache(config.settings.kafka))
    # No deadline in here: the parent kills this process at its deadline.
    processor = Processor(handler, outputs, wall_clock_ms, None, topics)
    if config.section.vectorized:
        vectors = VectorRuns(handler, processor, topics, shared_position)
        return lambda rows, singly: vectors.run(
            rows, *routes[rows.partition.topic], max_rows=1 if singly else len(rows)
        )
    return lambda rows, _: _run_one_by_one(rows, *routes[rows.partition.topic], processor, shared_position)


def _answer(pipe: Connection, run: _Run) -> None:
    rows, singly = receive(pipe)
    for outcomes in run(rows, singly):
        send(pipe, outcomes)


def _run_one_by_one(
    rows: Rows,
    route: Route,
    redelivered: bool,  # noqa: FBT001 - as in the routes
    processor: Processor,
    shared_position: SharedPosition,
) -> Iterator[Outcomes]:
    """Handle records like a worker's slot, and yield the outcomes of each time slice."""
    lane = Lane(AssignedPartition(rows.partition, route, redelivered, Progress(0)), exclusive=True)
    messages = cast("list[Message]", _PublishingMessages(list(rows), shared_position))
    position = 0
    while position < len(messages):
        item = WorkItem(lane, messages, position)
        processor.run(item)
        shared_position.clear()
        outcomes = _outcomes_of(item, position)
        yield outcomes
        if outcomes.critical:
            return
        position = item.position


class _PublishingMessages:
    """Messages that publish the position of each record before it is handled."""

    def __init__(self, messages: Sequence[Message], shared_position: SharedPosition) -> None:
        self._messages = messages
        self._position = shared_position

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, index: slice) -> Iterator[Message]:
        publish = self._position.set
        for number, message in enumerate(self._messages[index], start=index.start):
            publish(number)
            yield message


def _outcomes_of(item: WorkItem, first: int) -> Outcomes:
    return Outcomes(
        item.position - first,
        [(index - first, failure) for index, failure in item.failures],
        item.lineages,
        item.lateness,
        item.seconds,
        list(_as_columns(item, first)) if item.outputs else (),
    )


def _as_columns(item: WorkItem, first: int) -> Iterator[Emitted]:
    """Yield the outputs as Arrow columns, which pickle faster than objects; in order within a topic partition."""
    destinations: defaultdict[tuple[str, int | None], list[tuple[int, ProducerRecord]]] = defaultdict(list)
    for index, records in item.outputs:
        for record in records:
            destinations[record.topic, record.partition].append((index - first, record))
    for (topic, partition), found in destinations.items():
        columns = [
            pa.array([row for row, _ in found], pa.int32()),
            pa.array([record.key for _, record in found], pa.binary()),
            pa.array([record.value for _, record in found], pa.binary()),
            _headers_column([record.headers for _, record in found]),
        ]
        yield Emitted(topic, partition, pa.RecordBatch.from_arrays(columns, ["row", "key", "value", "headers"]))


def _headers_column(lists: Sequence[HeaderList | None]) -> pa.Array:
    if not any(lists):
        return pa.nulls(len(lists), HEADERS)
    pairs = [None if not each else [{"key": name, "value": value} for name, value in each] for each in lists]
    return pa.array(pairs, HEADERS)


def _as_synchronous(handler: Handler, runner: asyncio.Runner) -> Handler:
    """An asynchronous handler as a synchronous one, since a task handles one record after the other."""

    def call(*arguments: object) -> object:
        return runner.run(handler.call(*arguments))

    return replace(handler, call=call, asynchronous=False)
