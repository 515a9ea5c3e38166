"""Sweeps the dead-letter topics of a group: all the time in a thread of a scheduler, or once for `redelivery sweep`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from threading import Event

from kafka_redelivery.consumers.clock import boottime_s, wall_clock_ms
from kafka_redelivery.consumers.dead_letters.sweep_clock import SweepClock
from kafka_redelivery.consumers.dead_letters.sweep_cursor import PauseReason, SweepCursor
from kafka_redelivery.consumers.dead_letters.sweeper import Sweeper, SweeperDependencies
from kafka_redelivery.consumers.errors import ConsumersError
from kafka_redelivery.consumers.process.background import background_thread
from kafka_redelivery.consumers.process.clients import Instance, open_reader, open_writer
from kafka_redelivery.consumers.telemetry.observers import NoOpSweeperObserver, SweeperObserver
from kafka_redelivery.topology.cluster.sweep_plan import SweepPlan, sweep_plan, sweeper_group
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.broker_time import BrokerTime
from kafka_redelivery.transport.admin.group_members import GroupMembers
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets, RecordDeleter
from kafka_redelivery.transport.client_config import IDLE_FETCH, SMALL_PREFETCH, Config, consumer_config
from kafka_redelivery.transport.clients.outage import Report
from kafka_redelivery.transport.clients.reader import LoneReader
from kafka_redelivery.transport.errors import ReaderError
from kafka_redelivery.transport.protocols import Partition

_RESTART_S = 10.0
"""Time between an error and the restart."""

_BATCH = 1000
"""Records per turn of a single pass, which leaves no time to others."""

END = "end"
"""The partition was read to its end: it was empty, or everything in it had expired."""

TAKEN_OVER = "taken_over"
"""A scheduler started meanwhile and sweeps the partition now."""

UNFINISHED = "unfinished"
"""The pass was ended early."""


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """What a pass has done, or would do, in one partition."""

    number: int
    removed: int
    moved: int
    """How many of those removed were written to their expiry topic."""

    because: str
    """Why it stopped: a :class:`PauseReason`, :data:`END`, :data:`TAKEN_OVER` or :data:`UNFINISHED`."""

    offset: int | None = None
    """The first record that stays, ``None`` if it did not stop at a record."""

    expires_ms: int = 0
    """The expiration of that record (epoch ms), 0 = never."""

    problem: str = ""
    """Kafka's reason if it refused something."""


@dataclass(frozen=True, slots=True)
class TopicResult:
    """What a pass has done, or would do, in one topic; ``problem`` says why the topic could not be read."""

    name: str
    partitions: tuple[PartitionResult, ...] = ()
    problem: str = ""

    @property
    def complete(self) -> bool:
        """Whether nothing was refused or left unfinished."""
        failed = {PauseReason.REFUSED, UNFINISHED}
        return not self.problem and all(each.because not in failed for each in self.partitions)


def dead_letter_sweeper(
    settings: Settings, instance: Instance, observer: SweeperObserver
) -> AbstractContextManager[None]:
    """Sweep in a thread while the block runs, if dead letters expire. After an error a new sweeper starts."""
    create = sweeper_factory(settings, instance, observer)
    if create is None:
        return nullcontext()
    return background_thread(
        "sweeper", lambda ended: create().run(ended), "expired dead letters are not removed", restart_s=_RESTART_S
    )


def sweeper_factory(settings: Settings, instance: Instance, observer: SweeperObserver) -> Callable[[], Sweeper] | None:
    """A function that creates sweepers, ``None`` if no dead letter expires."""
    plan = sweep_plan(settings)
    if not plan.expiring:
        return None
    clock = _clock()  # shared: a jump that it has seen must outlive a sweeper's error

    return lambda: Sweeper(
        plan, _dependencies(settings, plan, instance, observer, IDLE_FETCH, clock, report=_ignore_waits)
    )


def sweep_once(
    settings: Settings, ended: Event, progress: Callable[[int, int], None], *, dry_run: bool
) -> list[TopicResult]:
    """Let a sweeper pass over all dead-letter topics once.

    Dead letters expire by their own headers, so the configuration needs no expiration.

    Args:
        settings: the configuration.
        ended: ends the pass early.
        progress: receives the number of offsets that are swept, and of all.
        dry_run: whether to change nothing, and only say what would be done. It joins no group and goes by this
            machine's clock.

    Raises:
        ConsumersError: schedulers of the group sweep already, or the topics cannot be read.
        TransportError: Kafka does not answer or denies access.
    """
    plan = sweep_plan(settings)
    group = sweeper_group(settings.group)
    if not dry_run and (members := GroupMembers(settings.kafka, every_protocol=True).count(group)):
        raise ConsumersError(
            f"schedulers sweep these topics already (members of group {group}: {members}); let them do it, or stop "
            "them and wait until their sessions end; --dry-run works meanwhile"
        )
    observer = NoOpSweeperObserver()
    try:
        if dry_run:
            reader = LoneReader(consumer_config(settings.kafka, group=group, instance=None) | SMALL_PREFETCH)
            calls = PartitionOffsets(settings.kafka).calls
            dependencies = SweeperDependencies(reader, None, None, None, _clock(), observer, calls)
        else:
            dependencies = _dependencies(settings, plan, Instance.random(), observer, SMALL_PREFETCH, _clock())
        sweeper = Sweeper(plan, dependencies, _BATCH)
        cursors = sweeper.sweep_once(ended, progress)
    except ReaderError as error:
        raise ConsumersError(str(error)) from error

    def topic_result(name: str) -> TopicResult:
        if name in sweeper.forbidden:
            return TopicResult(name, problem=sweeper.forbidden[name])
        if name not in sweeper.topics:
            return TopicResult(name, problem="there is no such topic; see `redelivery topology check`")
        partitions = (Partition(name, number) for number in range(sweeper.topics[name]))
        return TopicResult(name, tuple(partition_result(each, cursors.get(each)) for each in partitions))

    def partition_result(partition: Partition, cursor: SweepCursor | None) -> PartitionResult:
        done = partition.number, sweeper.reporter.total_removed[partition], sweeper.reporter.total_moved[partition]
        if cursor is None or cursor.pause_reason is None:
            return PartitionResult(*done, UNFINISHED if ended.is_set() else TAKEN_OVER if cursor is None else END)
        problem = cursor.problem if cursor.pause_reason is PauseReason.REFUSED else ""
        return PartitionResult(*done, str(cursor.pause_reason), cursor.next_offset, cursor.expires_ms, problem)

    return [topic_result(name) for name in plan.topics]


def _clock() -> SweepClock:
    return SweepClock(wall_clock_ms, boottime_s)


def _ignore_waits(client: str, problem: str | None, *, call: bool = False) -> None:
    """A sweeper that waits for Kafka does not make its process wait."""


def _dependencies(
    settings: Settings,
    plan: SweepPlan,
    instance: Instance,
    observer: SweeperObserver,
    changes: Config,
    clock: SweepClock,
    report: Report | None = None,
) -> SweeperDependencies:
    """Open the clients of a sweeper; ``report`` is the writer's, see :func:`open_writer`."""
    group = sweeper_group(settings.group)
    reader = open_reader(settings, group, instance, changes=changes)
    try:
        calls = PartitionOffsets(settings.kafka).calls
        return SweeperDependencies(
            reader=reader,
            writer=open_writer(settings, "sweeper", instance, reader, report) if plan.moving else None,
            deleter=RecordDeleter(settings.kafka, calls=calls),
            time=BrokerTime(settings.kafka, group, reader),
            clock=clock,
            observer=observer,
            calls=calls,
        )
    except BaseException:
        reader.close()
        raise
