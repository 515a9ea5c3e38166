"""What a Python worker reuses between tasks: the handler process, and a producer for each task number that it had."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from typing import Final

from kafka_redelivery.consumers.clock import failure_clock_ms
from kafka_redelivery.consumers.process.memory import infrequent_garbage_collection
from kafka_redelivery.consumers.routes import RetryTopics, Route
from kafka_redelivery.consumers.writes.decisions import BatchDependencies
from kafka_redelivery.consumers.writes.jitter import draws
from kafka_redelivery.pipeline.handler.computed import ComputedOutcomes
from kafka_redelivery.pipeline.handler.handling import Handling
from kafka_redelivery.pipeline.task.contract import TaskPlan
from kafka_redelivery.topology.topics.tiers import tier_set
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.client_config import consumer_config, producer_config
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.clients.write_thread import WriteThread
from kafka_redelivery.transport.clients.writer import TransactionalWriter
from kafka_redelivery.transport.errors import TransportError
from kafka_redelivery.transport.protocols import Partition
from kafka_redelivery.transport.tokens import find_functions_in

_MAX_PRODUCERS: Final = 16
"""Each producer has its own threads and connections."""


class _Driver:
    """The member of the group with whose membership the tasks of this process commit."""

    metadata: object = None

    def group_metadata(self) -> object:
        """See :class:`GroupMember`."""
        return self.metadata

    def commit(self, checkpoints: Mapping[Partition, Checkpoint]) -> None:
        """See :class:`GroupMember`. A task commits in transactions only."""
        raise NotImplementedError


class Runner:
    """Handler process and producers of one Python worker. Not thread-safe: a worker runs one task at a time."""

    def __init__(self, plan: TaskPlan) -> None:
        """Start the handler process.

        Raises:
            HandlerLoadError, SerdeError: the handler or a schema cannot be loaded on this machine.
        """
        self.name = secrets.token_hex(8)
        self.query = plan.query
        config = plan.config.on_this_machine()
        settings = config.settings
        find_functions_in(settings.kafka, config.search_path)
        self._settings = settings
        self.routes: dict[str, tuple[Route, bool]] = config.routes()
        self.handler: Handling | ComputedOutcomes = (
            Handling(config) if config.computing is None else ComputedOutcomes(config.computing, self.routes)
        )
        self._reader = GroupReader(consumer_config(settings.kafka, group=settings.group, instance=None))
        self._member = _Driver()
        self._writers: OrderedDict[int, tuple[TransactionalWriter, WriteThread]] = OrderedDict()
        naming = settings.naming()
        self.dependencies = BatchDependencies(
            group=settings.group,
            retry_topics=RetryTopics(naming, tier_set(settings.entries().values()), plan.partitions),
            clock=failure_clock_ms,
            jitter=draws,
            write_failures={},
            journal=naming.journal_topic() if settings.journal else None,
            details=settings.failure_details,
            look_up_topics=self._reader.partition_counts,
            is_listed=frozenset(output.topic for output in settings.outputs).__contains__,
        )
        self._until_closed = ExitStack()
        self._until_closed.enter_context(infrequent_garbage_collection())

    def writer(self, number: int, plan: TaskPlan) -> WriteThread:
        """Return the producer of a task, on a thread of its own.

        A new producer has ended the transactions that an older one left open. The cached producer is valid only if no
        other Python worker has had a task of this number since. If one had it without the driver's knowledge, the
        first write of the cached producer takes the id back.

        Args:
            number: the number of the task in its micro-batch.
            plan: the plan of the micro-batch.

        Raises:
            TransportError: the broker does not answer.
        """
        self._member.metadata = plan.member
        cached = self._writers.pop(number, None)
        if cached is not None:
            writer, thread = cached
            if plan.runners.get(number) == self.name:
                writer.reclaims = True
                self._writers[number] = cached
                return thread
            self._release(thread)
        identity = f"{self._settings.group}.spark.{number}"
        config = producer_config(self._settings.kafka, transactional_id=identity)
        topic = self._settings.naming().control_topic()
        writer = TransactionalWriter(config, self._member, topic=topic)
        thread = WriteThread(writer)
        self._writers[number] = writer, thread
        while len(self._writers) > _MAX_PRODUCERS:
            self._release(self._writers.popitem(last=False)[1][1])
        return thread

    def committed(self, partitions: Iterable[Partition]) -> Mapping[Partition, Checkpoint | None]:
        """Return the group's commits for partitions; waits while a transaction is being ended.

        Raises:
            ReaderError: the broker does not return them.
        """
        return self._reader.committed(partitions)

    def close(self) -> None:
        """Stop the handler process and close all clients."""
        self.handler.close()
        for _, thread in self._writers.values():
            self._release(thread)
        self._reader.close()
        self._until_closed.close()

    def _release(self, thread: WriteThread) -> None:
        with suppress(TransportError):
            thread.close()


_RUNNERS: dict[tuple[str, str], Runner] = {}
"""The runners of this process by group and Kafka cluster: an application may have queries of several groups."""


def runner_for(plan: TaskPlan) -> Runner:
    """Return this process's runner for a query. Closes that of the group's earlier query, and of ended ones."""
    key = plan.group, str(plan.config.settings.kafka.get("bootstrap.servers"))
    for other, runner in list(_RUNNERS.items()):
        if runner.query != plan.query and (other == key or runner.query not in plan.running):
            _RUNNERS.pop(other).close()
    if key not in _RUNNERS:
        _RUNNERS[key] = Runner(plan)
    return _RUNNERS[key]
