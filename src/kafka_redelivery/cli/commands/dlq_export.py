"""`redelivery dlq export`: prints dead letters, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_redelivery.cli.commands.dlq_previews import quick_exportable
from kafka_redelivery.cli.commands.dlq_running import load_quietly
from kafka_redelivery.cli.commands.dlq_selection import IndexFolder, OfGroup, selecting
from kafka_redelivery.cli.options import DEFAULT_CONFIG, ConfigFile, Overrides
from kafka_redelivery.cli.output import print_json, stderr, stdout
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.topology.config.settings import Settings

if TYPE_CHECKING:
    from kafka_redelivery.dead_letters.exporting import Exportable
    from kafka_redelivery.dead_letters.reading import StoredLetter


@selecting
def export(
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    *,
    wanted: Selection,
    of_group: OfGroup = None,
    index: IndexFolder = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show how many letters; export nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --dry-run: print the result as JSON.")] = False,
) -> None:
    """Print dead letters as lines of JSON, byte for byte: key, value and header values are in base64.

    Letters that have expired are among them, as long as they are in their topic.
    """
    from kafka_redelivery.cli.views.dlq import exportable_document, exported_document, print_exportable

    settings = load_quietly(config, overrides)
    group, base = of_group or settings.group, config.absolute().parent
    if not dry_run:
        with _letters(settings, group, wanted, base) as letters:
            for each in letters:
                print_json(exported_document(each), indent=None)
        return
    found = _exportable(settings, group, wanted, base, index)
    if as_json:
        print_json({"ok": True, "dryRun": True, **exportable_document(found)})
    else:
        print_exportable(stdout(), found)
        stdout().print("dry run: nothing was exported")


def _exportable(settings: Settings, group: str, wanted: Selection, base: Path, index: Path | None) -> Exportable:
    """Count the letters of an export, in the index if it can tell."""
    from kafka_redelivery.consumers.clock import wall_clock_ms
    from kafka_redelivery.dead_letters.exporting import exportable

    quick = quick_exportable(settings, group, wanted, index)
    if quick is not None:
        return quick
    with _letters(settings, group, wanted, base) as letters:
        return exportable(letters, wall_clock_ms())


@contextmanager
def _letters(settings: Settings, group: str, wanted: Selection, base: Path) -> Iterator[Iterator[StoredLetter]]:
    """Read the letters of an export, and show the progress."""
    from kafka_redelivery.cli.progress import progress
    from kafka_redelivery.dead_letters.ledger import Ledger
    from kafka_redelivery.dead_letters.meant import meant
    from kafka_redelivery.dead_letters.reading import dead_letters

    with progress(stderr(), "reading dead letters") as report_progress:
        ledger = Ledger(settings, group)
        letters = (each for each in dead_letters(settings, ledger, report_progress) if ledger.has(each.letter))
        yield meant(letters, wanted, settings, base)
