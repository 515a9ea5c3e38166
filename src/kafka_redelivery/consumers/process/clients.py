"""The Kafka clients of a process, and the instance name that they carry."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode
from kafka_redelivery.transport.admin.control_topic import ControlTopic
from kafka_redelivery.transport.admin.end_offsets import EndOffsets
from kafka_redelivery.transport.admin.group_members import UnownedPartitionWatch
from kafka_redelivery.transport.client_config import (
    Config,
    admin_config,
    consumer_config,
    is_cooperative,
    is_new_protocol,
    producer_config,
)
from kafka_redelivery.transport.clients.auto_writer import AutoWriter
from kafka_redelivery.transport.clients.enduring_control import EnduringControlTopic
from kafka_redelivery.transport.clients.outage import Report
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.clients.takeover import Endurance
from kafka_redelivery.transport.clients.writer import TransactionalWriter
from kafka_redelivery.transport.protocols import GroupMember, Writer

_log = logging.getLogger(__name__)

_NO_CHANGES: Config = {}


@dataclass(frozen=True, slots=True)
class Instance:
    """The name of a process within its group."""

    name: str
    stable: bool
    """Whether the process keeps the name over a restart."""

    leaves: bool = False
    """Whether it leaves the group when it stops, whatever ``leaveOnStop`` says."""

    @classmethod
    def from_settings(cls, settings: Settings) -> Instance:
        """The configured name. Without one, a random name and a warning about its cost."""
        if settings.instance is not None:
            return cls(settings.instance, stable=True)
        instance = cls.random()
        _log.warning(
            "no instance name is configured, so this process is named %s: if it is killed, no process reads its "
            "partitions until the broker ends its session (by default after at most 45 s); set 'instance' (or "
            "REDELIVERY_INSTANCE) to a name that is unique and survives a restart",
            instance.name,
        )
        return instance

    @classmethod
    def random(cls) -> Instance:
        """A random name, for a process that never restarts under it."""
        return cls(f"random-{secrets.token_hex(4)}", stable=False)


def open_reader(
    settings: Settings,
    group: str,
    instance: Instance,
    *,
    scheduler: bool = False,
    changes: Config = _NO_CHANGES,
    report: Report | None = None,
) -> GroupReader:
    """Open a consumer of a group.

    Args:
        settings: the configuration.
        group: the consumer group; a stable instance is a static member of it.
        instance: the name of this process.
        scheduler: whether it reads tiers; see :func:`consumer_config`.
        changes: client settings that differ from the usual ones.
        report: receives what the reader waits for; it then waits out every outage. ``None``: it gives up.
    """
    static = f"{group}.{instance.name}" if instance.stable else None
    config = consumer_config(settings.kafka, group=group, instance=static, scheduler=scheduler) | changes
    incremental = static is not None and is_cooperative(config) and not is_new_protocol(config)
    unowned = UnownedPartitionWatch(admin_config(settings.kafka), group) if incremental else None
    end_offsets = None if settings.metrics.port is None else EndOffsets(settings.kafka)
    leave = static is not None and (settings.leave_on_stop or instance.leaves)
    return GroupReader(config, unowned, end_offsets, report, leave_on_close=leave)


@contextmanager
def open_control(settings: Settings) -> Iterator[ControlTopic]:
    """Read the group's control topic to its end, and keep it open while the block runs."""
    topic = settings.naming().control_topic()
    control = EnduringControlTopic(settings.kafka, settings.group, topic, wall_clock_ms)
    try:
        yield control
    finally:
        control.close()


def open_writer(
    settings: Settings, role: str, instance: Instance, group: GroupMember, report: Report | None = None
) -> Writer:
    """Open a writer for the configured mode, which commits the offsets of ``group``. ``report``: as of a reader."""
    if settings.mode is not AcknowledgementMode.TRANSACTED:
        return AutoWriter(producer_config(settings.kafka, transactional_id=None), group)
    topic = settings.sources[0].topic  # it exists, so that the request of a producer creates nothing
    prefix = f"{settings.group}.{role}."
    config = producer_config(settings.kafka, transactional_id=prefix + instance.name)
    if report is None:
        return TransactionalWriter(config, group, topic=topic)
    endurance = Endurance(report, lambda: prefix + Instance.random().name, instance.name)
    return TransactionalWriter(config, group, endurance, topic=topic)
