"""`redelivery migrate`: reports what a move from a broker needs. It asks neither the broker nor a cluster."""

from __future__ import annotations

import os
import re
from copy import deepcopy
from dataclasses import replace
from typing import Annotated, Final

import typer

from kafka_redelivery.cli.command import Commands
from kafka_redelivery.cli.commands.importing import BrokerVersion, Environment, Properties, read_source
from kafka_redelivery.cli.commands.topology import offline_sources, users_of
from kafka_redelivery.cli.options import AsJson, named_values
from kafka_redelivery.cli.output import print_json, print_text
from kafka_redelivery.cli.views.migration import Moved, Service, document, markdown
from kafka_redelivery.topology.cluster.acls import AclRole
from kafka_redelivery.topology.cluster.check import check_plan
from kafka_redelivery.topology.cluster.plan import plan as plan_topology
from kafka_redelivery.topology.config.loading import load_policies
from kafka_redelivery.topology.config.settings import DEFAULT_WIDTH
from kafka_redelivery.topology.explanation import explain
from kafka_redelivery.topology.migration.conversion import broker_version, to_yaml
from kafka_redelivery.topology.migration.placeholders import PlaceholderValues
from kafka_redelivery.topology.migration.result import Imported
from kafka_redelivery.transport.client_config import servers_of

app = Commands(
    no_args_is_help=True,
    help="Report what a move from ActiveMQ or Artemis needs: delays, topics, rights, letters, steps.",
)

_REPLICAS: Final = 3
_ROLES: Final = (
    AclRole.APPLY,
    AclRole.WORKER,
    AclRole.SCHEDULER,
    AclRole.OPERATOR,
    AclRole.REDRIVE,
    AclRole.IMPORT,
)
"""Those of the weekend of the move."""

_NAMED: Final = re.compile(r"([A-Za-z0-9._-]{1,200})=(.+)", re.DOTALL)
"""A client with its group. No URI has ``=`` before ``:``."""


@app.command()
def plan(
    source: Annotated[
        str, typer.Argument(help="activemq.xml, broker.xml, the folder with one, or a connection URI in quotes.")
    ],
    clients: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[GROUP=]CLIENT...",
            help="The connection URI in quotes, or the Spring file, of each service that moves, after its group.",
        ),
    ] = None,
    destinations: Annotated[
        list[str] | None,
        typer.Option(
            "--destination",
            metavar="NAME",
            help="What moves, as in orders.eu or topic:news.sport; repeatable. Default: what the file lists.",
        ),
    ] = None,
    partitions: Annotated[
        int, typer.Option("--partitions", min=1, help="Partitions of each source topic; on Kafka a source has some.")
    ] = 6,
    properties: Properties = None,
    environment: Environment = False,
    version: BrokerVersion = None,
    group: Annotated[
        str, typer.Option("--group", metavar="NAME", help="The consumer group, where no client has one.")
    ] = "migrated",
    as_json: AsJson = False,
) -> None:
    """Print one report for a move, in Markdown: sources, delays, topics, differences, tests, rights, letters, steps.

    Asks neither the broker nor a cluster.
    """
    values = PlaceholderValues(named_values(properties, "--property"), os.environ if environment else {})
    broker = read_source(source, values, version)
    if destinations:
        broker.destinations.clear()
        broker.add_destinations(destinations)
    services: list[Service] = []
    for number, given in enumerate(clients or [""], start=1):
        named = _NAMED.fullmatch(given)
        name, client = (named[1], named[2]) if named else (group if number == 1 else f"{group}-{number}", given)
        read = read_source(client, values, version if broker.dialect == "activemq" else None) if client else None
        if any(each.group == name for each in services):
            raise typer.BadParameter(f"{name} is the group of two of them", param_hint="[GROUP=]CLIENT...")
        services.append(_service(_merged(broker, read, name), partitions))
    moved = Moved(
        source=broker.name,
        dialect=broker.dialect,
        version=None if version is None else str(broker_version(broker.dialect, version)),
        stomp=tuple(broker.stomp),
        notes=tuple(broker.notes),
        services=tuple(services),
        partitions=partitions,
    )
    if as_json:
        print_json({"ok": True, **document(moved)})
    else:
        print_text(markdown(moved), newline=False)


def _merged(broker: Imported, client: Imported | None, group: str) -> Imported:
    """Return the broker's configuration with a group and a client's policy, and the client's notes."""
    merged = replace(deepcopy(broker), notes=[] if client is None else list(client.notes))
    merged.top_level["group"] = group
    if client is None:
        return merged
    if client.dialect == broker.dialect:
        merged.section |= client.section
    elif any(client.section.values()):
        merged.note(
            None,
            "the client's redelivery policy is left out: the client redelivers by its own policy before the broker's "
            "settings count; for what it does itself, plan with its URI alone",
        )
    merged.handler |= client.handler
    merged.top_level |= client.top_level
    return merged


def _service(imported: Imported, partitions: int) -> Service:
    """Return what follows from a configuration.

    Raises:
        MigrationError: our configuration refuses a setting.
        typer.BadParameter: no source is known.
    """
    text = to_yaml(imported)
    settings, sources_known = load_policies(text)
    if not sources_known:
        raise typer.BadParameter(
            "the file lists no queue or topic that can be a source; name those that move", param_hint="--destination"
        )
    facts = offline_sources(settings, [f"{each.topic}={partitions}" for each in settings.sources], _REPLICAS, None)
    planned = plan_topology(settings, facts, DEFAULT_WIDTH)
    return Service(
        group=settings.group,
        servers=servers_of(settings.kafka),
        configuration=text,
        notes=tuple(imported.notes),
        destinations=tuple(explain(settings, each.destination or each.topic) for each in settings.sources),
        blocking=any(
            handler is not None and not handler.non_blocking_redelivery
            for handler in (settings.handler_of(each.topic) for each in settings.sources)
        ),
        planned=planned,
        faults=check_plan(planned),
        users=tuple(users_of(settings, _ROLES, None)),
    )
