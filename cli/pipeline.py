"""`redelivery pipeline`: the jobs that run on Spark."""

from __future__ import annotations

import typer

app = typer.Typer(help="Jobs that run on Spark.", no_args_is_help=True)
