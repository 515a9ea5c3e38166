"""`redelivery dlq export`: prints dead letters, byte for byte."""

from __future__ import annotations

from typing import Annotated

import typer

from kafka_redelivery.cli.commands.dlq_running import load_quietly
from kafka_redelivery.cli.commands.dlq_selection import IndexFolder, OfGroup, selecting
from kafka_redelivery.cli.options import DEFAULT_CONFIG, ConfigFile, Overrides
from kafka_redelivery.cli.output import print_json, stderr, stdout
from kafka_redelivery.dead_letters.letter import Selection


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
    from kafka_redelivery.cli.commands.dlq_index import refreshed_index
    from kafka_redelivery.cli.progress import progress
    from kafka_redelivery.cli.views.dlq import exportable_document, exported_document, print_exportable
    from kafka_redelivery.consumers.clock import wall_clock_ms
    from kafka_redelivery.dead_letters.exporting import exportable, exported

    settings = load_quietly(config, overrides)
    with refreshed_index(settings, of_group or settings.group, index, wanted, config.absolute().parent) as opened:
        if not dry_run:
            with progress(stderr(), "reading dead letters") as report_progress:
                for each in exported(settings, opened, wanted, report_progress):
                    print_json(exported_document(each), indent=None)
            return
        found = exportable(opened, wanted, wall_clock_ms())
    if as_json:
        print_json({"ok": True, "dryRun": True, **exportable_document(found)})
    else:
        print_exportable(stdout(), found)
        stdout().print("dry run: nothing was exported")
