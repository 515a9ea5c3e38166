"""Options that several commands share, and loading the configuration that they name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kafka_redelivery.topology.config.loading import load_policies, load_settings
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.durations import parse_duration
from kafka_redelivery.topology.faults import ConfigurationError, Fault, Violation

ConfigFile = Annotated[
    Path, typer.Option("--config", "-c", envvar="REDELIVERY_CONFIG", metavar="FILE", help="The configuration file.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Override a setting, as in --set limits.batch=100; repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

DEFAULT_CONFIG = Path("redelivery.yaml")


class LogLevel(StrEnum):
    """The lowest level that a process logs."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


LogLevelOption = Annotated[
    LogLevel,
    typer.Option("--log-level", envvar="REDELIVERY_LOG_LEVEL", case_sensitive=False, help="The lowest level to log."),
]


class LogFormat(StrEnum):
    """The format of a process's log."""

    TEXT = "text"
    JSON = "json"


LogFormatOption = Annotated[
    LogFormat,
    typer.Option(
        "--log-format",
        envvar="REDELIVERY_LOG_FORMAT",
        case_sensitive=False,
        help="The format of the log; json: one object per line.",
    ),
]


def begin_log(level: LogLevel, log_format: LogFormat) -> None:
    """Log to standard error."""
    from kafka_redelivery.consumers.telemetry.logs import JSON, TEXT, log_to_stderr

    log_to_stderr(level.name, JSON if log_format is LogFormat.JSON else TEXT)


def load(
    config: Path, overrides: list[str] | None, checks: Sequence[Callable[[Settings], Iterable[Violation]]] = ()
) -> Settings:
    """Load the settings of a file; the environment overrides the file, and ``--set`` overrides both.

    Args:
        config: the file.
        overrides: ``name=value`` of each ``--set`` flag.
        checks: further checks of the settings.

    Raises:
        ConfigurationError: the file cannot be read or has faults.
    """
    return load_settings(
        _text(config), name=str(config), environment=os.environ, overrides=overrides or (), checks=checks
    )


def load_partly(config: Path, overrides: list[str] | None) -> tuple[Settings, bool]:
    """Load the settings of a file that need not be complete: only its destinations and policies are checked.

    Returns:
        the settings, and whether the file lists sources.

    Raises:
        ConfigurationError: the file cannot be read, has faults or is empty, as after a failed import.
    """
    text = _text(config)
    if not text.strip():
        fix = "if redelivery import wrote it, follow the message of that command; otherwise add a policyEntry"
        raise ConfigurationError((Fault(str(config), "is empty", fix),))
    return load_policies(text, name=str(config), environment=os.environ, overrides=overrides or ())


def duration(text: str, option: str) -> timedelta:
    """Parse the value of an option; a wrong one is an error of the command line."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def named_values(texts: Iterable[str] | None, option: str) -> dict[str, str]:
    """Parse the values ``NAME=VALUE`` of an option; a wrong one is an error of the command line."""
    pairs = {}
    for text in texts or ():
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=option)
        pairs[name] = value
    return pairs


def _text(config: Path) -> str:
    try:
        return config.read_text(encoding="utf-8")
    except FileNotFoundError:
        fix = "name the file with --config FILE or REDELIVERY_CONFIG"
        raise ConfigurationError((Fault(str(config), "there is no such file", fix),)) from None
    except UnicodeDecodeError:
        raise ConfigurationError((Fault(str(config), "is not UTF-8 text", "save it as UTF-8"),)) from None
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise ConfigurationError((Fault(str(config), problem, "name a file that can be read"),)) from None
