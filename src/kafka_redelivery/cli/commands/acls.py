"""`redelivery topology acls`: the ACLs that each role needs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
import yaml

from kafka_redelivery.cli.options import DEFAULT_CONFIG, ConfigFile, Overrides, load
from kafka_redelivery.cli.output import print_json, print_text
from kafka_redelivery.cli.views.acls import (
    USER,
    AclUser,
    default_principal,
    documents,
    kafka_commands,
    strimzi_users,
)
from kafka_redelivery.topology.cluster.acls import AclRole, rights
from kafka_redelivery.topology.config.settings import Settings


class AclFormat(StrEnum):
    """How ACLs are printed."""

    KAFKA_ACLS = "kafka-acls"
    STRIMZI = "strimzi"
    JSON = "json"


def acls(
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    role: Annotated[
        list[AclRole] | None, typer.Option("--role", help="Print the ACLs of this role only; repeatable.")
    ] = None,
    principal: Annotated[
        str | None,
        typer.Option("--principal", metavar="NAME", help="One user for all roles. Default: GROUP-ROLE for each role."),
    ] = None,
    output: Annotated[
        AclFormat, typer.Option("--format", help="Commands of Kafka, resources of Strimzi, or JSON.")
    ] = AclFormat.KAFKA_ACLS,
) -> None:
    """Print the ACLs that each role needs on a cluster that denies all else. Asks no cluster."""
    settings = load(config, overrides)
    users = _users(settings, tuple(dict.fromkeys(role or AclRole)), principal)
    match output:
        case AclFormat.KAFKA_ACLS:
            servers = settings.kafka.get("bootstrap.servers", settings.kafka.get("metadata.broker.list", ""))
            for line in kafka_commands(users, str(servers)):
                print_text(line)
        case AclFormat.STRIMZI:
            print_text(
                yaml.safe_dump_all(strimzi_users(users, settings.kafka), sort_keys=False, explicit_start=True),
                newline=False,
            )
        case AclFormat.JSON:
            print_json(documents(users))


def _users(settings: Settings, roles: tuple[AclRole, ...], principal: str | None) -> list[AclUser]:
    if principal is None:
        return [AclUser(default_principal(settings.group, role), (role,), rights(settings, [role])) for role in roles]
    name = principal.removeprefix(USER)
    if not name:
        raise typer.BadParameter("write the name of a user, such as billing-worker", param_hint="--principal")
    return [AclUser(USER + name, roles, rights(settings, roles))]
