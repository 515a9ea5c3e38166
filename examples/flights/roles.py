"""The processes of the demo, as command lines."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from examples.flights.wire import CONFIG

BLOCKING: Final = ("handler.nonBlockingRedelivery=false", "handler.ordering=key")
"""The settings of ``--blocking``."""

WITHOUT: Final = ("sources.0.dependencies=[]",)
"""The settings of ``--without``: no dependency is declared."""


@dataclass(frozen=True, slots=True)
class Role:
    """One of the demo's processes."""

    name: str
    """Also the name of its log and its pid file."""

    command: Sequence[str | Path]
    environment: Mapping[str, str] = field(default_factory=dict)
    """In addition to that of the demo."""

    port: int | None = None
    """Where it listens on 127.0.0.1, if the next process needs it."""

    told_to_stop: str | None = None
    """Another pid file: that of the process that gets SIGTERM. The process itself by default."""


def redelivery(verbs: Sequence[str], *settings: str) -> Sequence[str | Path]:
    """Return the command line of ``redelivery`` with the demo's configuration.

    Args:
        verbs: subcommand and options.
        settings: in addition to the configuration file.
    """
    program = Path(sysconfig.get_path("scripts")) / "redelivery"
    return [program, *with_settings(verbs, *settings)]


def with_settings(verbs: Sequence[str], *settings: str) -> Sequence[str | Path]:
    """Return the arguments of ``redelivery``; the parameters are the same."""
    return [*verbs, "--config", CONFIG, *(f"--set={setting}" for setting in settings)]


def environment(more: Mapping[str, str]) -> Mapping[str, str]:
    """Return the current environment with ``more``, and without settings for another group."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("REDELIVERY_")}
    return {**inherited, **more}


def broker(servers: str) -> Mapping[str, str]:
    """Return the variable that tells the configuration and the handler where Kafka is."""
    return {"FLIGHTS_BROKER": servers}
