"""`redelivery status`: one screen about a group."""

from __future__ import annotations

import typer

from kafka_redelivery.cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, Overrides, load
from kafka_redelivery.cli.output import print_json, stderr, stdout
from kafka_redelivery.topology import exit_codes


def status(config: ConfigFile = DEFAULT_CONFIG, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Show the group: members, what waits and when it is due, dead letters, pauses and who obeys them, faults.

    Reads at most 10,000 waiting records. Exit code 1 if there are faults. `redelivery topology check` looks at the
    configuration of the topics.
    """
    from kafka_redelivery.cli.progress import progress
    from kafka_redelivery.cli.views.status import print_status, status_document
    from kafka_redelivery.consumers.operations import status as operations

    settings = load(config, overrides)
    with progress(stderr(), "reading waiting records") as report:
        found = operations.status(settings, report)
    if as_json:
        print_json({"ok": not found.faults, **status_document(found)})
    else:
        print_status(stdout(), found)
    if found.faults:
        raise typer.Exit(exit_codes.FAILED)
