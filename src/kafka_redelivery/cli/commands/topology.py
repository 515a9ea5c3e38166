"""`redelivery topology`: plans, creates and checks the topics of a group, and prints the ACLs that each role needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
import yaml

from kafka_redelivery.cli.command import CHANGES, Commands
from kafka_redelivery.cli.options import DEFAULT_CONFIG, AppName, AsJson, ConfigFile, Overrides, load
from kafka_redelivery.cli.output import print_json, print_text, stderr, stdout
from kafka_redelivery.cli.views.acls import AclUser, documents, kafka_commands, strimzi_users
from kafka_redelivery.cli.views.topology import (
    change_line,
    offset_lines,
    print_faults,
    print_offline,
    print_plan,
    strimzi_topics,
)
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.cluster.acls import AclRole, other_system_rights, rights
from kafka_redelivery.topology.cluster.changes import (
    Change,
    Changes,
    CommitFirst,
    change_document,
    changes,
    control_records,
    withdrawals,
)
from kafka_redelivery.topology.cluster.check import Severity, TopologyFault, check_outputs, check_plan, check_shared
from kafka_redelivery.topology.cluster.check import check as check_topology
from kafka_redelivery.topology.cluster.facts import MIN_INSYNC, TopicFacts
from kafka_redelivery.topology.cluster.kafka_rights import USER, default_principal
from kafka_redelivery.topology.cluster.plan import plan as plan_topology
from kafka_redelivery.topology.config.settings import DEFAULT_WIDTH, Settings
from kafka_redelivery.transport.client_config import ConfigValue, servers_of

app = Commands(no_args_is_help=True, help="Plan, create and check the topics of a group.")

_OFFLINE_REPLICAS = 3


class AclFormat(StrEnum):
    """How ACLs are printed."""

    KAFKA_ACLS = "kafka-acls"
    STRIMZI = "strimzi"
    JSON = "json"


class PlanFormat(StrEnum):
    """How a plan is printed."""

    TEXT = "text"
    STRIMZI = "strimzi"


@app.command()
def plan(
    config: ConfigFile = DEFAULT_CONFIG,
    app: AppName = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Plan a new group without a cluster; needs --partitions.")
    ] = False,
    partitions: Annotated[
        list[str] | None,
        typer.Option("--partitions", metavar="TOPIC=NUMBER", help="Offline: partitions of a source; repeatable."),
    ] = None,
    replicas: Annotated[
        int, typer.Option("--replicas", min=1, help="Offline: the sources' replication factor.")
    ] = _OFFLINE_REPLICAS,
    min_insync: Annotated[
        int | None,
        typer.Option("--min-insync", min=1, help="Offline: their min.insync.replicas. Default: --replicas less 1."),
    ] = None,
    output: Annotated[
        PlanFormat, typer.Option("--format", help="Lines for people, or resources of Strimzi.")
    ] = PlanFormat.TEXT,
) -> None:
    """Show the topics and first offsets that the configuration needs, and which of them the cluster lacks."""
    if as_json and output is PlanFormat.STRIMZI:
        raise typer.BadParameter("choose one of it and --json", param_hint="--format")
    settings = load(config, overrides, app=app)
    if offline:
        sources = offline_sources(settings, partitions or [], replicas, min_insync)
        planned = plan_topology(settings, sources, DEFAULT_WIDTH)
        faults = check_plan(planned)
        if as_json:
            print_json(_verdict(faults) | planned.document())
        else:
            if output is PlanFormat.STRIMZI:
                _print_yaml(strimzi_topics(planned, {}))
            else:
                print_offline(stdout(), planned)
            print_faults(stderr(), faults)
        _exit_if_refused(faults)
        return
    if partitions:
        raise typer.BadParameter(
            "--partitions needs --offline; without it the cluster is asked", param_hint="--partitions"
        )
    from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
    from kafka_redelivery.transport.admin.preflight import survey

    planned, cluster = survey(ClusterAdmin(settings.kafka), settings, AclRole.APPLY)
    todo = changes(planned, cluster)
    faults = (*check_plan(planned), *check_shared(planned, cluster), *check_outputs(planned, cluster))
    if as_json:
        print_json(_verdict(faults) | planned.document() | {"changes": todo.document()})
    else:
        if output is PlanFormat.STRIMZI:
            _print_yaml(strimzi_topics(planned, cluster.topics))
        else:
            print_plan(stdout(), planned, cluster, todo)
        print_faults(stderr(), faults)
    _exit_if_refused(faults)


@app.command()
def apply(
    context: typer.Context,
    config: ConfigFile = DEFAULT_CONFIG,
    app: AppName = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes; make none.")] = False,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss", help="Where the next record was deleted, go on at the log start; what was deleted is lost."
        ),
    ] = False,
    accept_repeats: Annotated[
        bool,
        typer.Option(
            "--accept-repeats",
            help="Where the committed offset has expired, go on at the log start; records are repeated.",
        ),
    ] = False,
    raise_feature_level: Annotated[
        bool,
        typer.Option(
            "--raise-feature-level",
            help="Use the formats of this version. All processes of the group must have it or a newer one.",
        ),
    ] = False,
) -> None:
    """Create and extend the group's internal topics and commit first offsets.

    Deletes no topic, and changes no source.
    """
    from kafka_redelivery.consumers.clock import wall_clock_ms
    from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
    from kafka_redelivery.transport.admin.control_topic import append_control
    from kafka_redelivery.transport.admin.errors import TopologyRefusedError
    from kafka_redelivery.transport.admin.preflight import survey
    from kafka_redelivery.transport.clients.position_move import move_to_log_start

    settings = load(config, overrides, app=app)
    admin = ClusterAdmin(settings.kafka)
    planned, cluster = survey(admin, settings, AclRole.APPLY)
    found = (*check_plan(planned), *check_shared(planned, cluster))
    refused = [fault for fault in found if fault.severity is Severity.REFUSE]
    if refused:
        raise TopologyRefusedError(refused)
    todo = changes(planned, cluster, accept_loss=accept_loss, accept_repeats=accept_repeats)
    if dry_run:
        faults = (*found, *check_outputs(planned, cluster))
        _print_dry_run(todo, faults, as_json=as_json)
        _exit_if_refused(faults)
        return
    made: list[Change] = []
    documents: list[object] = []
    context.meta[CHANGES] = documents

    def done(change: Change) -> None:
        made.append(change)
        documents.append(change_document(change))
        if not as_json and not isinstance(change, CommitFirst):
            print_text(change_line(change, done=True))

    control = settings.naming().control_topic()
    append_control(settings.kafka, control, withdrawals(todo, cluster))
    for forgotten in todo.forget:
        done(forgotten)
    admin.apply(todo, done)
    records = control_records(planned, cluster, wall_clock_ms(), raise_level=raise_feature_level)
    append_control(settings.kafka, control, records)
    for moved in move_to_log_start(settings.kafka, todo.move):
        done(moved)
    faults = check_topology(*survey(admin, settings, AclRole.APPLY))
    if as_json:
        print_json(_verdict(faults) | {"dryRun": False, "changes": documents})
    else:
        _print_offsets([change for change in made if isinstance(change, CommitFirst)], done=True)
        if not made:
            print_text("nothing to do")
        print_faults(stderr(), faults)
    _exit_if_refused(faults)


@app.command()
def check(
    config: ConfigFile = DEFAULT_CONFIG,
    app: AppName = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Report topics that would lose records, and how to fix them. Exit code 1 if there are any.

    Warns if no scheduler runs, and if an outage of a dependency may outlive the retention of a source.
    Exit code 5 if an output topic does not exist.
    """
    from kafka_redelivery.consumers.clock import wall_clock_ms
    from kafka_redelivery.transport.admin.preflight import look_at_topology

    planned, cluster, faults = look_at_topology(load(config, overrides, app=app), wall_clock_ms(), AclRole.APPLY)
    refused = _refused(faults)
    if as_json:
        print_json(_verdict(faults))
    else:
        print_faults(stdout(), faults)
        if not refused:
            print_text(f"{len(planned.topics)} topics of group {planned.group}: no record would be lost")
    if check_outputs(planned, cluster):
        raise typer.Exit(exit_codes.TOPOLOGY_REFUSED)
    if refused:
        raise typer.Exit(exit_codes.FAILED)


@app.command()
def acls(
    config: ConfigFile = DEFAULT_CONFIG,
    app: AppName = None,
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
    dead_letters: Annotated[
        str | None,
        typer.Option(
            "--dead-letters",
            metavar="TOPIC",
            help="For `dlq --bootstrap` over this topic of another system; no configuration.",
        ),
    ] = None,
    origins: Annotated[
        list[str] | None,
        typer.Option(
            "--origin",
            metavar="TOPIC",
            help="With --dead-letters: a topic that its letters came from, and are sent to; repeatable.",
        ),
    ] = None,
) -> None:
    """Print the ACLs that each role needs on a cluster that denies all else. Asks no cluster."""
    kafka: Mapping[str, ConfigValue] = {"bootstrap.servers": "kafka:9092"}
    if dead_letters is not None:
        if role:
            raise typer.BadParameter("leave it out with --dead-letters", param_hint="--role")
        users = [_other_system_user(dead_letters, origins or [], principal)]
    elif origins:
        raise typer.BadParameter("add --dead-letters TOPIC", param_hint="--origin")
    else:
        settings = load(config, overrides, app=app)
        kafka, users = settings.kafka, users_of(settings, tuple(dict.fromkeys(role or AclRole)), principal)
    match output:
        case AclFormat.KAFKA_ACLS:
            for line in kafka_commands(users, servers_of(kafka)):
                print_text(line)
        case AclFormat.STRIMZI:
            _print_yaml(strimzi_users(users, kafka))
        case AclFormat.JSON:
            print_json(documents(users))


def _print_yaml(resources: list[dict[str, Any]]) -> None:
    print_text(yaml.safe_dump_all(resources, sort_keys=False, explicit_start=True), newline=False)


def _other_system_user(letters: str, origins: Sequence[str], principal: str | None) -> AclUser:
    from kafka_redelivery.dead_letters.source import OtherSystem

    rights_ = other_system_rights(letters, OtherSystem(letters, {}).naming(), origins)
    roles = (AclRole.REDRIVE,)
    if principal is None:
        return AclUser(default_principal(letters, AclRole.REDRIVE), roles, rights_)
    return AclUser(USER + _user_name(principal), roles, rights_)


def _user_name(principal: str) -> str:
    name = principal.removeprefix(USER)
    if not name:
        raise typer.BadParameter("write the name of a user, such as billing-worker", param_hint="--principal")
    return name


def users_of(settings: Settings, roles: tuple[AclRole, ...], principal: str | None) -> list[AclUser]:
    """Return a user for each role, or one for all of them."""
    if principal is None:
        return [AclUser(default_principal(settings.group, role), (role,), rights(settings, [role])) for role in roles]
    return [AclUser(USER + _user_name(principal), roles, rights(settings, roles))]


def offline_sources(
    settings: Settings, given: list[str], replicas: int, min_insync: int | None
) -> dict[str, TopicFacts]:
    """Return the sources as they are to be, from ``TOPIC=NUMBER`` for each.

    Raises:
        typer.BadParameter: one has no number, or a topic is no source.
    """
    counts: dict[str, int] = {}
    for each in given:
        topic, _, number = each.partition("=")
        if not (number.isascii() and number.isdigit() and int(number) > 0):
            raise typer.BadParameter(f"{each!r} is not TOPIC=NUMBER", param_hint="--partitions")
        counts[topic] = int(number)
    sources = [source.topic for source in settings.sources]
    unknown = [topic for topic in counts if topic not in sources]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]} is not a source of the configuration", param_hint="--partitions")
    missing = [topic for topic in sources if topic not in counts]
    if missing:
        raise typer.BadParameter(f"--offline needs --partitions {missing[0]}=NUMBER", param_hint="--partitions")
    in_sync = max(1, replicas - 1) if min_insync is None else min_insync
    return {
        topic: TopicFacts(
            name=topic, partitions=counts[topic], replication_factor=replicas, configs={MIN_INSYNC: str(in_sync)}
        )
        for topic in sources
    }


def _exit_if_refused(faults: Sequence[TopologyFault]) -> None:
    """Exit with 5 if no change of the internal topics can fix one of the faults."""
    if _refused(faults):
        raise typer.Exit(exit_codes.TOPOLOGY_REFUSED)


def _refused(faults: Sequence[TopologyFault]) -> bool:
    return any(fault.severity is Severity.REFUSE for fault in faults)


def _verdict(faults: Sequence[TopologyFault]) -> dict[str, Any]:
    return {"ok": not _refused(faults), "faults": [fault.document() for fault in faults]}


def _print_dry_run(todo: Changes, faults: Sequence[TopologyFault], *, as_json: bool) -> None:
    if as_json:
        print_json(_verdict(faults) | {"dryRun": True, "changes": todo.document()})
        return
    for change in todo:
        if not isinstance(change, CommitFirst):
            print_text(change_line(change, done=False))
    _print_offsets(list(todo.commit), done=False)
    print_faults(stderr(), faults)
    print_text("dry run: nothing was changed" if todo else "nothing to do")


def _print_offsets(firsts: list[CommitFirst], *, done: bool) -> None:
    what = "first offsets" if done else "would commit first offsets"
    for topic, _, text in offset_lines(firsts):
        print_text(f"+ {topic}: {what}, {text}")
