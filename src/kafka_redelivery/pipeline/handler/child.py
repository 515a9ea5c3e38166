"""The program of the handler's process in a Spark task: it receives runs of records and returns their outcomes.

The child publishes the record that it is handling in a :class:`SharedPosition`. If it dies, exactly that record failed.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from multiprocessing.connection import Connection
from threading import Event
from typing import cast

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.held_partitions import HeldPartitions
from kafka_redelivery.consumers.flow.lane import Lane
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.child_process import serve
from kafka_redelivery.consumers.handlers.child_process_pool import load_as_configured
from kafka_redelivery.consumers.handlers.destinations import Destinations
from kafka_redelivery.consumers.handlers.handler import Handler, load_handler
from kafka_redelivery.consumers.handlers.record import Record
from kafka_redelivery.consumers.process.garbage_collection import infrequent_garbage_collection
from kafka_redelivery.consumers.routes import Route, codecs
from kafka_redelivery.pipeline.handler.config import HandlerConfig
from kafka_redelivery.pipeline.handler.handler_slots import HandlerSlots, Loaded
from kafka_redelivery.pipeline.handler.messages import receive, send
from kafka_redelivery.pipeline.handler.outcomes import Outcomes
from kafka_redelivery.pipeline.handler.outcomes_of import outcomes_of
from kafka_redelivery.pipeline.handler.plain_rows import RowProcessor, records_of
from kafka_redelivery.pipeline.handler.rows import Row, Rows
from kafka_redelivery.pipeline.handler.shared_position import SHARED_BYTES, SharedPosition
from kafka_redelivery.pipeline.handler.vectorized import VectorRuns
from kafka_redelivery.serdes.errors import SerdeError
from kafka_redelivery.topology.wire.progress import Progress
from kafka_redelivery.transport.admin.topic_metadata import TopicMetadataCache
from kafka_redelivery.transport.protocols import Message

_Run = Callable[[Rows, bool], Iterator[Outcomes]]


def main(pipe_descriptor: int, memory_descriptor: int) -> None:
    """Run the child.

    Args:
        pipe_descriptor: file descriptor of the pipe to the parent.
        memory_descriptor: file descriptor of the memory of the shared position.
    """
    pipe = Connection(pipe_descriptor)
    config: HandlerConfig
    config, positions = pipe.recv()
    with mmap.mmap(memory_descriptor, positions * SHARED_BYTES) as memory:

        def load(stack: ExitStack) -> Callable[[], None]:
            loaded = _load(config, stack, one_by_one=positions == 1)
            stack.enter_context(infrequent_garbage_collection())
            if positions > 1:
                shared = [SharedPosition(memory, number) for number in range(positions)]
                return HandlerSlots(pipe, config.section, loaded, shared).turn
            run = _one_by_one(config, loaded, SharedPosition(memory))
            return lambda: _answer(pipe, run)

        serve(pipe, load, log_level=config.log_level, log_format=config.log_format)


def _load(config: HandlerConfig, stack: ExitStack, *, one_by_one: bool) -> Loaded:
    section, details = config.section, config.settings.failure_details
    target = section.callable
    try:
        routes = config.routes()
        if one_by_one:  # this process is the child that isolation asks for
            handler = load_handler(target, section.not_retryable, stack, details)
        else:
            handler = load_as_configured(section, stack, details)
        outputs = {output.topic: codecs(output, config.base) for output in config.settings.outputs}
    except SerdeError as error:
        raise HandlerLoadError(target, str(error), "see to the schemas in its environment") from error
    return Loaded(handler, routes, outputs, Destinations(config.settings, TopicMetadataCache(config.settings.kafka)))


def _one_by_one(config: HandlerConfig, loaded: Loaded, shared_position: SharedPosition) -> _Run:
    """Return the function that runs the handler over records."""
    handler, routes, outputs, topics = loaded
    # No deadline in here: the parent kills this process at its deadline.
    processor = RowProcessor(handler, outputs, wall_clock_ms, None, topics)
    if config.section.vectorized:  # its position is published around each call
        if handler.asynchronous:
            handler = _as_synchronous(handler)
        vectors = VectorRuns(handler, processor, topics, shared_position)
        return lambda rows, singly: vectors.run(
            rows, *routes[rows.partition.topic], max_rows=1 if singly else len(rows)
        )
    processor.position = shared_position

    def handle_async(item: WorkItem) -> None:
        handler.loop.run(processor.run_async(item))

    handle = handle_async if handler.asynchronous else processor.run
    return lambda rows, _: _run_one_by_one(rows, *routes[rows.partition.topic], handle, shared_position)


def _answer(pipe: Connection, run: _Run) -> None:
    rows, singly = receive(pipe)
    for outcomes in run(rows, singly):
        send(pipe, outcomes)


def _run_one_by_one(
    rows: Rows,
    route: Route,
    redelivered: bool,  # noqa: FBT001 - as in the routes
    handle: Callable[[WorkItem], None],
    shared_position: SharedPosition,
) -> Iterator[Outcomes]:
    """Handle records like a worker's slot, and yield the outcomes of each time slice."""
    lane = Lane(AssignedPartition(rows.partition, route, redelivered, Progress(0)), exclusive=True)
    records = records_of(rows, route, redelivered=redelivered)
    messages = cast("list[Message]", _PublishingMessages(records, shared_position))
    position, held = 0, HeldPartitions()
    while position < len(messages):
        item = WorkItem(lane, messages, position)
        handle(item)
        shared_position.clear()
        if item.position > position:
            if held:
                held.progressed(rows.partition, rows.batch.column("offset")[position : item.position].to_pylist())
            outcomes = outcomes_of(item, position)
            yield outcomes
            if outcomes.critical:
                return
            position = item.position
        if item.held:
            held.hold(rows.partition, rows.batch.column("offset")[position].as_py(), item.held)
            Event().wait(held.left_s())


class _PublishingMessages:
    """Messages that publish the position of each record before it is handled."""

    def __init__(self, messages: Sequence[Row | Record], shared_position: SharedPosition) -> None:
        self._messages = messages
        self._position = shared_position

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, index: slice) -> Iterator[Row | Record]:
        messages = self._messages[index]
        prepared = isinstance(messages[0], Record) if messages else True
        return self._position.publishing(messages, index.start, prepared=prepared)


def _as_synchronous(handler: Handler) -> Handler:
    """An asynchronous handler as a synchronous one, since vectorized handlers are called one after the other."""

    def call(*arguments: object) -> object:
        return handler.loop.run(handler.call(*arguments))

    return replace(handler, call=call, asynchronous=False)
