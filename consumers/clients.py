"""The clients of a process, and the name that they bear."""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass

from topology.acknowledgement import AcknowledgementMode
from topology.settings import Settings
from transport.client_config import (
    Config,
    admin_config,
    consumer_config,
    is_cooperative,
    is_new_protocol,
    producer_config,
)
from transport.far_ends import FarEnds
from transport.orphans import OrphanWatch
from transport.protocols import Group, Writer
from transport.reader import Reader
from transport.writer import AutoWriter, TransactedWriter

_log = logging.getLogger(__name__)

_AS_IT_IS: Config = {}


@dataclass(frozen=True, slots=True)
class Instance:
    """This process's name, and whether it survives a restart."""

    name: str
    stable: bool

    @classmethod
    def of(cls, settings: Settings) -> Instance:
        """The name that is configured, else a random one; the log says what that costs."""
        if settings.instance is not None:
            return cls(settings.instance, stable=True)
        found = cls.passing()
        _log.warning(
            "no stable instance name is configured, this process calls itself %s: if it is killed, its partitions wait "
            "until the broker gives it up (by default at most 45 s); set 'instance' (or REDELIVERY_INSTANCE) to a name "
            "that is unique and survives a restart",
            found.name,
        )
        return found

    @classmethod
    def passing(cls) -> Instance:
        """A random name, for what is not meant to be started again under it."""
        return cls(f"random-{secrets.token_hex(4)}", stable=False)


def reader_of(
    settings: Settings, group: str, instance: Instance, *, of_tiers: bool = False, adjusted: Config = _AS_IT_IS
) -> Reader:
    """A consumer of a group."""
    static = f"{group}.{instance.name}" if instance.stable else None
    config = consumer_config(settings.kafka, group=group, instance=static, of_tiers=of_tiers) | adjusted
    in_steps = static is not None and is_cooperative(config) and not is_new_protocol(config)
    orphans = OrphanWatch(admin_config(settings.kafka), group) if in_steps else None
    return Reader(config, orphans, None if settings.metrics.port is None else FarEnds(settings.kafka))


def writer_of(settings: Settings, role: str, instance: Instance, group: Group) -> Writer:
    """What writes as the configured mode says, and commits for a group."""
    if settings.mode is not AcknowledgementMode.TRANSACTED:
        return AutoWriter(producer_config(settings.kafka, transactional_id=None), group)
    identity = f"{settings.group}.{role}.{instance.name}"
    return TransactedWriter(producer_config(settings.kafka, transactional_id=identity), group)
