"""Options that several commands of `redelivery dlq` share."""

from __future__ import annotations

from typing import Annotated

import typer

JobName = Annotated[str, typer.Argument(metavar="JOB", help="The job, or the start of its name.")]
JobsOf = Annotated[
    str | None, typer.Option("--of-group", metavar="GROUP", help="Jobs of another consumer group's letters.")
]
To = Annotated[str | None, typer.Option("--to", metavar="TOPIC", help="Send to this topic instead.")]
Ready = Annotated[str | None, typer.Option("--ready", metavar="TOPIC", help="The ready topic of another group.")]
KeepAttempts = Annotated[
    bool, typer.Option("--keep-attempts", help="Continue to count attempts instead of beginning anew.")
]
DrySending = Annotated[bool, typer.Option("--dry-run", help="Show what would be sent; send nothing.")]

DEFAULT_MAX_REDRIVES = 3
"""How often a record is sent again before it goes to the parking topic."""
