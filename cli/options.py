"""Options that several commands share, and the settings they lead to."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from topology.configuration import ConfigurationError, Fault, load_policies, load_settings
from topology.settings import Settings

ConfigFile = Annotated[
    Path, typer.Option("--config", "-c", envvar="REDELIVERY_CONFIG", metavar="FILE", help="The configuration file.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting instead of the file's; may be given several times."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

DEFAULT_CONFIG = Path("redelivery.yaml")


class LogLevel(StrEnum):
    """What a process writes into its log at least."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


LogLevelOption = Annotated[
    LogLevel,
    typer.Option(
        "--log-level", envvar="REDELIVERY_LOG_LEVEL", case_sensitive=False, help="The least that goes into the log."
    ),
]


class LogForm(StrEnum):
    """How a process writes its log."""

    TEXT = "text"
    JSON = "json"


LogFormOption = Annotated[
    LogForm,
    typer.Option("--log-format", envvar="REDELIVERY_LOG_FORMAT", case_sensitive=False, help="json: one object a line."),
]


def load(config: Path, overrides: list[str] | None) -> Settings:
    """The settings of a file, with the environment and the flags above it.

    Raises:
        ConfigurationError: the file cannot be read, or holds faults.
    """
    return load_settings(_text(config), name=str(config), environment=os.environ, overrides=overrides or ())


def load_partly(config: Path, overrides: list[str] | None) -> tuple[Settings, bool]:
    """The same of a file that need not be complete: only what it says about destinations counts.

    Returns:
        the settings, and whether their sources are the file's own.

    Raises:
        ConfigurationError: the file cannot be read, holds faults, or nothing at all: what an import that failed leaves.
    """
    text = _text(config)
    if not text.strip():
        mend = "if redelivery import was to write it, do as its message says; else list at least a policyEntry"
        raise ConfigurationError((Fault(str(config), "is empty", mend),))
    return load_policies(text, name=str(config), environment=os.environ, overrides=overrides or ())


def _text(config: Path) -> str:
    try:
        return config.read_text(encoding="utf-8")
    except FileNotFoundError:
        mend = "give one with --config FILE, or name it in REDELIVERY_CONFIG"
        raise ConfigurationError((Fault(str(config), "there is no such file", mend),)) from None
    except UnicodeDecodeError:
        raise ConfigurationError((Fault(str(config), "is not UTF-8 text", "save it as UTF-8"),)) from None
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise ConfigurationError((Fault(str(config), problem, "give a file that can be read"),)) from None
