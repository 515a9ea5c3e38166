"""`redelivery sweep`: removes expired dead letters once."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_redelivery.cli.commands.confirmation import Yes, ask, can_ask
from kafka_redelivery.cli.commands.signals import stop_event
from kafka_redelivery.cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, Overrides, load
from kafka_redelivery.cli.output import print_json, stderr, stdout
from kafka_redelivery.topology import exit_codes

if TYPE_CHECKING:
    from kafka_redelivery.consumers.dead_letters.sweep import TopicResult
    from kafka_redelivery.topology.config.settings import Settings


def sweep(
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed; remove nothing.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove expired dead letters in one pass.

    Schedulers do this continuously. Use this command for topics that no scheduler sweeps: because none is running, or
    because the configuration no longer has an expiration for them. On a terminal it shows them and asks; a scheduled
    job is not asked. Exit code 1 if Kafka refused something.
    """
    from kafka_redelivery.cli.views.sweep import print_swept, removed_letters, swept_document
    from kafka_redelivery.consumers.telemetry.logs import log_to_stderr

    log_to_stderr(logging.WARNING, "%(message)s")
    settings = load(config, overrides)
    asks = not (yes or dry_run) and can_ask(as_json=as_json)
    swept = _sweep(settings, dry_run=dry_run or asks)
    if asks:
        print_swept(stdout(), swept, done=False)
        if removed_letters(swept) and not _interrupted(swept):
            ask("remove them for good?")
            swept = _sweep(settings, dry_run=False)
            print_swept(stdout(), swept, done=True)
    elif as_json:
        print_json({"ok": _whole(swept), "dryRun": dry_run, **swept_document(swept)})
    else:
        print_swept(stdout(), swept, done=not dry_run)
        if dry_run:
            stdout().print("dry run: nothing was changed")
    if not _whole(swept):
        raise typer.Exit(exit_codes.FAILED)


def _sweep(settings: Settings, *, dry_run: bool) -> list[TopicResult]:
    """Pass over the topics until the end or a signal, and show the progress."""
    from kafka_redelivery.cli.progress import progress
    from kafka_redelivery.consumers.dead_letters.sweep import sweep_once

    with stop_event() as stop, progress(stderr(), "reading dead letters") as report_progress:
        return sweep_once(settings, stop, report_progress, dry_run=dry_run)


def _interrupted(swept: list[TopicResult]) -> bool:
    from kafka_redelivery.consumers.dead_letters.sweep import UNFINISHED

    return any(each.because == UNFINISHED for topic in swept for each in topic.partitions)


def _whole(swept: list[TopicResult]) -> bool:
    return all(topic.complete for topic in swept)
