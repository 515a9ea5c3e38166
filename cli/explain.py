"""`redelivery explain`: what will happen to a record that fails, without a cluster."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli.explain_view import print_explanation
from cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, Overrides, load_partly
from cli.output import print_json, stdout


def explain(
    destinations: Annotated[
        list[str], typer.Argument(metavar="DESTINATION...", help="orders.eu, queue:orders.eu or topic:news.sport.")
    ],
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Tell what decides about a failing record there: layer and pattern, each delay, tier and dead-letter topic.

    Needs no cluster, and of the configuration only what it says about destinations.
    """
    from topology.explanation import explain as explained

    settings, sources_known = load_partly(config, overrides)
    documents: list[dict[str, Any]] = [
        explained(settings, destination, sources_known=sources_known) for destination in destinations
    ]
    if as_json:
        print_json(documents)
        return
    for number, document in enumerate(documents):
        if number:
            typer.echo()
        print_explanation(stdout(), document)
