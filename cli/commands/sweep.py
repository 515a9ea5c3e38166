"""`redelivery sweep`: removes expired dead letters once."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from kafka_redelivery.cli.commands.signals import stop_event
from kafka_redelivery.cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, Overrides, load
from kafka_redelivery.cli.output import print_json, stderr, stdout
from kafka_redelivery.topology import exit_codes


def sweep(
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    as_json: AsJson = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed; remove nothing.")] = False,
) -> None:
    """Remove expired dead letters in one pass.

    Schedulers do this continuously. Use this command for topics that no scheduler sweeps: because none is running, or
    because the configuration no longer has an expiration for them. Exit code 1 if Kafka refused something.
    """
    from kafka_redelivery.cli.progress import progress
    from kafka_redelivery.cli.views.sweep import print_swept, swept_document
    from kafka_redelivery.consumers.dead_letters import manual_sweep
    from kafka_redelivery.consumers.telemetry.logs import log_to_stderr

    log_to_stderr(logging.WARNING, "%(message)s")
    settings = load(config, overrides)
    with stop_event() as stop, progress(stderr(), "reading dead letters") as report_progress:
        swept = (manual_sweep.preview if dry_run else manual_sweep.sweep)(settings, stop, report_progress)
    whole = all(topic.complete for topic in swept)
    if as_json:
        print_json({"ok": whole, "dryRun": dry_run, **swept_document(swept)})
    else:
        print_swept(stdout(), swept, dry_run=dry_run)
    if not whole:
        raise typer.Exit(exit_codes.FAILED)
