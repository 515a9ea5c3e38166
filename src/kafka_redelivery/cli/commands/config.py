"""`redelivery config`: checks and prints the configuration, without a cluster."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml

from kafka_redelivery.cli.command import Commands
from kafka_redelivery.cli.options import DEFAULT_CONFIG, AsJson, ConfigFile, Overrides, load
from kafka_redelivery.cli.output import print_json, print_text, stdout
from kafka_redelivery.cli.views.topology import print_faults
from kafka_redelivery.topology.config.rules.clients import exposed
from kafka_redelivery.topology.config.settings import Settings, json_schema
from kafka_redelivery.topology.config.shape import CLIENT_SETTINGS
from kafka_redelivery.topology.faults import ConfigurationError, Fault, TopologyFault
from kafka_redelivery.topology.urls import HIDDEN, without_secrets

app = Commands(no_args_is_help=True, help="Check and print the configuration; needs no cluster.")

_SHOWN: Final = re.compile(
    "acks|algorithm|assignor|bytes|close|codec|compress|connection|cores|crcs|debug|deploymode|disable|enable|"
    "enabled|family|flight|fraction|id|idempotence|instances|interval|kbytes|level|list|location|log_level|"
    "lookup|master|maxexecutors|maxfailures|mechanism|mechanisms|memory|memoryoverhead|messages|method|"
    "minexecutors|ms|name|oauth_cb|packages|parallelism|partitioner|partitions|principal|protocol|push|rack|reset|"
    "retries|scope|servers|size|speculation|stores|strategy|suites|timeout|timezone|ttl|type|url|username|"
    "verification"
)
"""Last words of the names of other libraries' settings that are shown."""

_SECRET: Final = re.compile(r"password|secret|token|jaas|credential|user\.info|\.pem$", re.IGNORECASE)
"""Hidden, whatever the last word."""


@app.command()
def check(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="The configuration files, instead of --config.")
    ] = None,
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Report every fault of the configuration with its location and fix, and warn of probable mistakes.

    Modules of handlers, exceptions and probes are imported, if they are on this machine, to check names and types.
    """
    from kafka_redelivery.consumers.handlers.checking import handler_violations
    from kafka_redelivery.consumers.routes import codec_violations
    from kafka_redelivery.transport.clients.setting_check import setting_violations

    wanted = files or [config]
    faults: list[Fault] = []
    warnings: list[TopologyFault] = []
    for file in wanted:
        base = file.absolute().parent
        check_handlers = partial(handler_violations, base=base, warnings=warnings)
        checks = (setting_violations, partial(codec_violations, base=base), check_handlers)
        try:
            settings = load(file, overrides, checks)
        except ConfigurationError as error:
            faults += error.faults
        else:
            warnings += exposed(settings)
            warnings += [each for found in settings.resolutions().values() for each in found.warnings]
    if faults:
        raise ConfigurationError(tuple(faults))
    if as_json:
        print_json({"ok": True, "faults": [], "warnings": [warning.document() for warning in warnings]})
    else:
        print_faults(stdout(), warnings)
        for file in wanted:
            print_text(f"{file}: no faults")


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


def shown(settings: Settings) -> dict[str, Any]:
    """Return all settings, defaults included, as in the file. Those of other libraries are hidden unless harmless."""
    document: dict[str, Any] = _without_secrets(settings.model_dump(mode="json", by_alias=True))
    for source, section in zip(document["sources"], settings.sources, strict=True):
        handler = settings.handler_of(section.topic)
        if section.handler is not None and handler is not None:
            source["handler"] = handler.model_dump(mode="json", by_alias=True)
    return document


def _without_secrets(value: Any, name: str = "", *, others: bool = False) -> Any:  # noqa: ANN401 - any part of it
    if isinstance(value, dict):
        below = others or name in CLIENT_SETTINGS
        return {key: _without_secrets(each, str(key), others=below) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_secrets(each, name, others=others) for each in value]
    if not others:
        return without_secrets(value) if isinstance(value, str) and "://" in value else value
    last = name.rpartition(".")[2].lower()
    if _SECRET.search(name) or not _SHOWN.fullmatch(last):
        return HIDDEN
    if isinstance(value, str) and (last == "url" or "://" in value):
        return without_secrets(value)
    return value
