"""`redelivery worker`, `redelivery scheduler` and `redelivery run`: the processes of a group."""

from __future__ import annotations

from kafka_redelivery.cli.options import (
    DEFAULT_CONFIG,
    AppName,
    ConfigFile,
    LogFormat,
    LogFormatOption,
    LogLevel,
    LogLevelOption,
    Overrides,
    begin_log,
    find_app,
    load,
)
from kafka_redelivery.consumers.process.memory import few_arenas
from kafka_redelivery.consumers.process.signals import exit_on_signals


def worker(
    config: ConfigFile = DEFAULT_CONFIG,
    app: AppName = None,
    overrides: Overrides = None,
    log_level: LogLevelOption = LogLevel.INFO,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Run a worker: handle the records of the sources until SIGTERM or Ctrl-C.

    A second signal of the same kind ends the process immediately; records that were not committed are delivered again.
    """
    exit_on_signals()
    few_arenas()
    from kafka_redelivery.consumers.worker.run import run_worker

    begin_log(log_level, log_format)
    if app is not None:
        find_app(app, config).run(overrides=overrides or ())
        return
    run_worker(load(config, overrides), config.absolute().parent)


def scheduler(
    config: ConfigFile = DEFAULT_CONFIG,
    app: AppName = None,
    overrides: Overrides = None,
    log_level: LogLevelOption = LogLevel.INFO,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Run a scheduler: release retry records when they are due, until SIGTERM or Ctrl-C.

    A second signal of the same kind ends the process immediately; what was not committed is released by the next one.
    """
    exit_on_signals()
    few_arenas()
    from kafka_redelivery.consumers.scheduler.run import run_scheduler

    begin_log(log_level, log_format)
    run_scheduler(load(config, overrides, app=app))


def run(
    config: ConfigFile = DEFAULT_CONFIG,
    app: AppName = None,
    overrides: Overrides = None,
    log_level: LogLevelOption = LogLevel.INFO,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Run a worker and a scheduler in one process until SIGTERM or Ctrl-C, for development.

    A second signal of the same kind ends the process immediately; what was not committed is delivered again.
    """
    exit_on_signals()
    few_arenas()
    begin_log(log_level, log_format)
    find_app(app, config).run(scheduler=True, overrides=overrides or ())
