"""Options that several commands share, and loading the configuration that they name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_redelivery.cli.output import confirm
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.config.loading import load_policies, load_settings
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.durations import parse_duration
from kafka_redelivery.topology.faults import ConfigurationError, Fault, Violation
from kafka_redelivery.transport.tokens import find_functions_in

if TYPE_CHECKING:
    from kafka_redelivery.consumers.app import App

ConfigFile = Annotated[
    Path, typer.Option("--config", "-c", envvar="REDELIVERY_CONFIG", metavar="FILE", help="The configuration file.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Override a setting, as in --set limits.batch=100; repeatable."),
]
AppName = Annotated[
    str | None, typer.Option("--app", metavar="MODULE:NAME", help="The App, instead of a configuration file.")
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
    config: Path,
    overrides: list[str] | None,
    checks: Sequence[Callable[[Settings], Iterable[Violation]]] = (),
    *,
    app: str | None = None,
) -> Settings:
    """Load the settings of a file, or of an App; the environment overrides these, and ``--set`` overrides both.

    Args:
        config: the file.
        overrides: ``name=value`` of each ``--set`` flag.
        checks: further checks of the settings of a file.
        app: names the App instead of the file.

    Raises:
        ConfigurationError: the file cannot be read, or the settings have faults.
        HandlerLoadError, typer.BadParameter: as :func:`find_app`.
    """
    if app is not None:
        return find_app(app, config).settings_with(overrides or ())
    settings = load_settings(
        _text(config), name=str(config), environment=os.environ, overrides=overrides or (), checks=checks
    )
    find_functions_in(settings.kafka, [str(config.absolute().parent)])
    return settings if config == DEFAULT_CONFIG else settings.named(str(config))


def find_app(name: str | None, config: Path) -> App:
    """Import an App, or make one of a configuration file if none is named.

    The current folder is searched last.

    Raises:
        HandlerLoadError: there is no such App.
        ConfigurationError: the file cannot be read.
        typer.BadParameter: both are named.
    """
    from kafka_redelivery.consumers.app import App
    from kafka_redelivery.consumers.errors import HandlerLoadError
    from kafka_redelivery.consumers.handlers.handler import find_handler

    if name is None:
        _text(config)
        return App.from_config(config)
    if config != DEFAULT_CONFIG:
        raise typer.BadParameter("name either an App or a file", param_hint="--app")
    if os.getcwd() not in sys.path:  # noqa: PTH109 - as text
        sys.path.append(os.getcwd())  # noqa: PTH109
    found = find_handler(name)
    if not isinstance(found, App):
        raise HandlerLoadError(name, "is no App", "name the object that App(...) or App.from_config(...) has returned")
    return found


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


Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Note = Annotated[str, typer.Option("--note", metavar="TEXT", help="Why, for those who see it later.")]


def can_ask(*, as_json: bool) -> bool:
    """Whether there is a terminal to ask on, and the output is for a person."""
    return not as_json and sys.stdin.isatty()


def refuse_without_question(*, yes: bool, as_json: bool, dry_run: bool | None = None) -> None:
    """Refuse to change something where it cannot be asked whether to do it.

    Args:
        yes: the user has agreed.
        as_json: the output is JSON.
        dry_run: nothing will be changed; ``None`` if the command has no ``--dry-run``.

    Raises:
        typer.BadParameter: without ``--yes`` where the command cannot ask.
    """
    if yes or dry_run or can_ask(as_json=as_json):
        return
    instead = "" if dry_run is None else ", or --dry-run to change nothing"
    raise typer.BadParameter(
        f"there is no terminal to ask on; add --yes to go on without a question{instead}", param_hint="--yes"
    )


def ask(question: str) -> None:
    """Ask whether to go on; anything but yes ends the command with exit code 1."""
    if not confirm(question):
        raise typer.Exit(exit_codes.FAILED)
