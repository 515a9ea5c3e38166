"""`redelivery dlq import`: sends exported dead letters back to their dead-letter topics."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafka_redelivery.cli.commands.confirmation import Yes, ask, refuse_without_question
from kafka_redelivery.cli.commands.dlq_running import load_quietly
from kafka_redelivery.cli.commands.dlq_selection import OfGroup
from kafka_redelivery.cli.commands.signals import stop_event
from kafka_redelivery.cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, Overrides
from kafka_redelivery.cli.output import print_json, stderr, stdout
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.config.foreign_topic import ForeignTopic


def import_letters(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Lines of `redelivery dlq export`.", dir_okay=False)],
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    of_group: OfGroup = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be imported; write nothing.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Send exported dead letters back to their dead-letter topics, each exactly once.

    Letters that are still there, or were imported before, are left out, so run an interrupted import again.
    """
    from kafka_redelivery.cli.progress import progress
    from kafka_redelivery.cli.views.dlq import importable_document, print_importable
    from kafka_redelivery.dead_letters.importing import Import

    refuse_without_question(dry_run=dry_run, yes=yes, as_json=as_json)
    settings = load_quietly(config, overrides)
    if isinstance(settings, ForeignTopic):
        raise typer.BadParameter(
            "import sends our own dead letters back, and needs a configuration", param_hint="--bootstrap"
        )
    try:
        with progress(stderr(), "reading dead letters") as report_progress:
            importing = Import(settings, of_group or settings.group, file)
            found = importing.preview(report_progress)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error}", param_hint="FILE") from None
    if not as_json:
        print_importable(stdout(), found)
    whole = True
    if not dry_run and found.missing:
        if not yes:
            ask("import them?")
        with stop_event() as stop, progress(stderr(), "importing dead letters") as report_progress:
            whole = importing.run(stop, report_progress)
    if as_json:
        print_json({"ok": whole, "dryRun": dry_run, **importable_document(found)})
    elif dry_run:
        stdout().print("dry run: nothing was changed")
    elif found.missing:
        stdout().print("all are imported" if whole else "the import was interrupted; run it again to go on")
    if not whole:
        raise typer.Exit(exit_codes.FAILED)
