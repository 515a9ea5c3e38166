"""Reads the configuration of `redelivery dlq`, and creates and runs its jobs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import typer

from kafka_redelivery.cli.commands.confirmation import ask
from kafka_redelivery.cli.commands.dlq_foreign import foreign_settings
from kafka_redelivery.cli.commands.dlq_index import refreshed_index
from kafka_redelivery.cli.commands.signals import stop_event
from kafka_redelivery.cli.options import load
from kafka_redelivery.cli.output import print_json, stderr, stdout
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.redrive.job import JobOptions

if TYPE_CHECKING:
    from pathlib import Path

    from kafka_redelivery.dead_letters.creation import Preview
    from kafka_redelivery.dead_letters.ledger import Ledger


def load_quietly(config: Path, overrides: list[str] | None) -> Settings:
    """Read the configuration, or what replaces it; only warnings are logged, because the output is the result."""
    from kafka_redelivery.consumers.telemetry.logs import log_to_stderr

    log_to_stderr(logging.WARNING, "%(message)s")
    return foreign_settings(overrides) or load(config, overrides)


def create_and_run(
    settings: Settings,
    wanted: Selection,
    options: JobOptions,
    base: Path,
    index: Path | None,
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Show what a job would do, ask, create it and run it."""
    from kafka_redelivery.consumers.clock import wall_clock_ms
    from kafka_redelivery.dead_letters.creation import create, preview
    from kafka_redelivery.dead_letters.ledger import Ledger
    from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin

    topics = ClusterAdmin(settings.kafka).partition_counts()
    with refreshed_index(settings, options.group, index, wanted, base) as opened:
        chosen = preview(settings, opened, wanted, options, topics, wall_clock_ms())
        if not _agreed(chosen, dry_run=dry_run, yes=yes, as_json=as_json):
            return
        ledger = Ledger(settings, options.group)
        job = create(settings, ledger, opened, chosen)
    if not as_json:
        stdout().print(f"job {job.id} is created")
    run_job(settings, ledger, job.id, as_json=as_json)


def _agreed(chosen: Preview, *, dry_run: bool, yes: bool, as_json: bool) -> bool:
    """Show what a job would do, and ask; whether there is something to do."""
    from kafka_redelivery.cli.views.dlq import preview_document, print_preview

    if not as_json:
        print_preview(stdout(), chosen)
    if dry_run or not chosen.total:
        if as_json:
            print_json({"ok": True, "dryRun": dry_run, "job": None, **preview_document(chosen)})
        elif dry_run:
            stdout().print("dry run: nothing was changed")
        return False
    if not yes:
        ask("discard them?" if chosen.options.discard else "send them?")
    return True


def run_job(settings: Settings, ledger: Ledger, job: str, *, as_json: bool) -> None:
    """Run a job to its end, or until a signal; print what it has done. Exit code 1 if it has not sent everything."""
    from kafka_redelivery.cli.progress import progress
    from kafka_redelivery.cli.views.dlq import all_sent, job_document, print_job
    from kafka_redelivery.dead_letters.run import JobRun

    discards = ledger.job(job).spec.options.discard
    doing = "setting dead letters aside" if discards else "sending dead letters again"
    with stop_event() as stop, progress(stderr(), doing) as report_progress:
        ended = JobRun(settings, ledger, job, stop, report_progress).run()
    document = job_document(ledger, ledger.job(job))
    whole = ended and all_sent(document)
    if as_json:
        print_json({"ok": whole, **document})
    else:
        print_job(stdout(), document)
        if not ended:
            stdout().print(f"go on with: {ledger.command('resume', job)}")
    if not whole:
        raise typer.Exit(exit_codes.FAILED)
