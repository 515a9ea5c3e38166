"""`redelivery worker` and `redelivery scheduler`: the processes of a group."""

from __future__ import annotations

from cli.first_process import heed_signals
from cli.options import (
    DEFAULT_CONFIG,
    ConfigFile,
    LogForm,
    LogFormOption,
    LogLevel,
    LogLevelOption,
    Overrides,
    load,
)


def worker(
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    log_level: LogLevelOption = LogLevel.INFO,
    log_format: LogFormOption = LogForm.TEXT,
) -> None:
    """Handle the records of the sources until SIGTERM or Ctrl-C.

    A second signal ends the process at once; what was not committed is delivered again.
    """
    heed_signals()
    from consumers.wiring import run_worker

    begin_log(log_level, log_format)
    run_worker(load(config, overrides), config.absolute().parent)


def scheduler(
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    log_level: LogLevelOption = LogLevel.INFO,
    log_format: LogFormOption = LogForm.TEXT,
) -> None:
    """Release what is due again, for all workers of the group, until SIGTERM or Ctrl-C."""
    heed_signals()
    from consumers.wiring import run_scheduler

    begin_log(log_level, log_format)
    run_scheduler(load(config, overrides))


def begin_log(level: LogLevel, form: LogForm) -> None:
    """Set up the log of a process."""
    from consumers.logs import JSON, TEXT, log_to_stderr

    log_to_stderr(level.name, JSON if form is LogForm.JSON else TEXT)
