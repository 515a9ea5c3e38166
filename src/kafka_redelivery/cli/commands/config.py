"""`redelivery config`: checks and prints the configuration, without a cluster."""

from __future__ import annotations

from functools import partial

import yaml

from kafka_redelivery.cli.command import Commands
from kafka_redelivery.cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, Overrides, load
from kafka_redelivery.cli.output import print_json, print_text, stdout
from kafka_redelivery.cli.views.topology import print_faults
from kafka_redelivery.topology.config.redaction import shown
from kafka_redelivery.topology.config.rules.exposed import exposed
from kafka_redelivery.topology.config.settings import json_schema

app = Commands(no_args_is_help=True, help="Check and print the configuration; needs no cluster.")


@app.command()
def check(config: ConfigFile = DEFAULT_CONFIG, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Report every fault of the configuration with its location and fix, and warn of probable mistakes."""
    from kafka_redelivery.consumers.routes import codec_violations
    from kafka_redelivery.transport.clients.setting_check import setting_violations

    codecs = partial(codec_violations, base=config.absolute().parent)
    settings = load(config, overrides, (setting_violations, codecs))
    warnings = [*exposed(settings), *(each for found in settings.resolutions().values() for each in found.warnings)]
    if as_json:
        print_json({"ok": True, "faults": [], "warnings": [warning.document() for warning in warnings]})
    else:
        print_faults(stdout(), warnings)
        print_text(f"{config}: no faults")


@app.command()
def schema() -> None:
    """Print the JSON Schema of the configuration file, for editors."""
    print_json(json_schema())


@app.command()
def show(config: ConfigFile = DEFAULT_CONFIG, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Print the effective settings: defaults, file, environment and flags combined, without secrets."""
    document = shown(load(config, overrides))
    if as_json:
        print_json(document)
    else:
        print_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), newline=False)
