"""`redelivery worker` and `redelivery scheduler`: the processes of a group."""

from __future__ import annotations

import logging

from cli.first_process import heed_signals
from cli.options import DEFAULT_CONFIG, ConfigFile, LogLevel, LogLevelOption, Overrides, load


def worker(
    config: ConfigFile = DEFAULT_CONFIG, overrides: Overrides = None, log_level: LogLevelOption = LogLevel.INFO
) -> None:
    """Handle the records of the sources until SIGTERM or Ctrl-C.

    A second signal ends the process at once; what was not committed is delivered again.
    """
    heed_signals()
    from consumers.wiring import run_worker

    log_to_stderr(log_level)
    run_worker(load(config, overrides), config.absolute().parent)


def scheduler(
    config: ConfigFile = DEFAULT_CONFIG, overrides: Overrides = None, log_level: LogLevelOption = LogLevel.INFO
) -> None:
    """Release what is due again, for all workers of the group, until SIGTERM or Ctrl-C."""
    heed_signals()
    from consumers.wiring import run_scheduler

    log_to_stderr(log_level)
    run_scheduler(load(config, overrides))


def log_to_stderr(level: LogLevel) -> None:
    """Set up the log of a process."""
    logging.basicConfig(level=level.name, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
