"""What a Python worker keeps from one task to the next: the handler's process, and a producer for each partition."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Final

from consumers.batch import Shared
from consumers.clock import failure_clock_ms
from consumers.collected import collected_rarely
from consumers.jitter import draws
from consumers.routes import Route, Waiting
from pipeline.handler_process import HandlerProcess
from pipeline.task_plan import TaskPlan
from topology.progress import Checkpoint
from topology.tiers import tier_set
from transport.client_config import consumer_config, producer_config
from transport.errors import TransportError
from transport.protocols import Partition
from transport.reader import Reader
from transport.writer import TransactedWriter

_MOST_PRODUCERS: Final = 16
"""Each has threads and connections of its own."""


class Runner:
    """Used by one thread: a Python worker runs one task at a time."""

    def __init__(self, plan: TaskPlan) -> None:
        """Start the handler.

        Raises:
            HandlerLoadError, SerdeError: the handler, or a schema, cannot be had here.
        """
        self.name = secrets.token_hex(8)
        self.query = plan.query
        setup = plan.setup.here()
        settings = setup.settings
        self._settings = settings
        self.routes: dict[str, tuple[Route, bool]] = setup.routes()
        self.handler = HandlerProcess(setup)
        self._reader = Reader(consumer_config(settings.kafka, group=settings.group, instance=None))
        self.beside = ThreadPoolExecutor(1, "writer")
        """Makes one write at a time, while the next records are handled."""

        self._writers: OrderedDict[Partition, TransactedWriter] = OrderedDict()
        naming = settings.naming()
        self.shared = Shared(
            group=settings.group,
            waiting=Waiting(naming, tier_set(settings.entries().values()), plan.partitions),
            clock=failure_clock_ms,
            jitter=draws,
            verdicts={},
            journal=naming.journal_topic() if settings.journal else None,
        )
        self._until_closed = ExitStack()
        self._until_closed.enter_context(collected_rarely())

    def writer(self, place: Partition, plan: TaskPlan) -> tuple[TransactedWriter, bool]:
        """The producer of a partition, and whether it is a new one: it has ended whatever an older one had begun.

        One that is kept is good only if no other Python worker has had the partition since.
        """
        kept = self._writers.pop(place, None)
        if kept is not None and plan.runners.get(place) == self.name:
            self._writers[place] = kept
            return kept, False
        return self.take_over(place, kept), True

    def take_over(self, place: Partition, kept: TransactedWriter | None) -> TransactedWriter:
        """A new producer with the partition's identity, which fences every other.

        Raises:
            TransportError: the broker does not answer.
        """
        if kept is not None:
            self._release(kept)
        self._writers.pop(place, None)
        identity = f"{self._settings.group}.spark.{place.topic}.{place.number}"
        config = producer_config(self._settings.kafka, transactional_id=identity)
        writer = self._writers[place] = TransactedWriter(config, self._reader)
        while len(self._writers) > _MOST_PRODUCERS:
            self._release(self._writers.popitem(last=False)[1])
        return writer

    def committed(self, place: Partition) -> Checkpoint | None:
        """What the group has committed for a partition; waits for a transaction that is being ended.

        Raises:
            ReaderError: the broker does not tell.
        """
        return self._reader.committed([place])[place]

    def close(self) -> None:
        """Let go of everything."""
        self.handler.close()
        self.beside.shutdown()
        for writer in self._writers.values():
            self._release(writer)
        self._reader.close()
        self._until_closed.close()

    def _release(self, writer: TransactedWriter) -> None:
        with suppress(TransportError):
            writer.close()


_HERE: dict[str, Runner] = {}
"""This process's, by the query it is for; never more than one."""


def the_runner(plan: TaskPlan) -> Runner:
    """This process's runner for a query; what it had for another one is let go."""
    runner = _HERE.get(plan.query)
    if runner is None:
        for other in _HERE.values():
            other.close()
        _HERE.clear()
        runner = _HERE[plan.query] = Runner(plan)
    return runner
