"""Reads the configuration of `redelivery dlq`, and creates and runs its jobs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import typer

from kafka_redelivery.cli.commands.confirmation import ask
from kafka_redelivery.cli.commands.dlq_foreign import foreign_settings
from kafka_redelivery.cli.commands.dlq_previews import quick_preview
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
    from kafka_redelivery.cli.progress import progress
    from kafka_redelivery.cli.views.dlq import preview_document
    from kafka_redelivery.dead_letters.created_again import refuse_created_again
    from kafka_redelivery.dead_letters.creation import create, preview
    from kafka_redelivery.dead_letters.ledger import Ledger

    quick = quick_preview(settings, wanted, options, index) if dry_run or not yes else None
    if quick is not None and not _agreed(quick.preview, options, dry_run=dry_run, yes=yes, as_json=as_json):
        return
    # A job has what the topics have. If that is something else than was shown, ask again.
    ledger, ends = Ledger(settings, options.group), None if quick is None else quick.ends
    if quick is not None:
        refuse_created_again(quick.topics, ledger.topics, "set aside" if options.discard else "sent")
    with progress(stderr(), "reading dead letters") as report_progress:
        chosen = preview(settings, ledger, wanted, options, report_progress, base=base, ends=ends)
    shown = quick is not None and preview_document(quick.preview, options) == preview_document(chosen, options)
    if not shown and not _agreed(chosen, options, dry_run=dry_run, yes=yes, as_json=as_json):
        return
    job = create(settings, ledger, wanted, options, chosen)
    if not as_json:
        stdout().print(f"job {job.id} is created")
    run_job(settings, ledger, job.id, as_json=as_json)


def _agreed(chosen: Preview, options: JobOptions, *, dry_run: bool, yes: bool, as_json: bool) -> bool:
    """Show what a job would do, and ask; whether there is something to do."""
    from kafka_redelivery.cli.views.dlq import preview_document, print_preview

    if not as_json:
        print_preview(stdout(), chosen, options)
    if dry_run or not chosen.total:
        if as_json:
            print_json({"ok": True, "dryRun": dry_run, "job": None, **preview_document(chosen, options)})
        elif dry_run:
            stdout().print("dry run: nothing was changed")
        return False
    if not yes:
        ask("discard them?" if options.discard else "send them?")
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
