"""The `redelivery` command. It imports a command when that runs, and a command imports what it needs when it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand

from kafka_redelivery.cli.command import Commands, ReportingGroup
from kafka_redelivery.cli.output import print_text
from kafka_redelivery.topology import exit_codes

if TYPE_CHECKING:
    from typer.core import TyperGroup

_COMMANDS: Final = {
    "init": (
        "commands.init:init",
        "Write a service to start from: a configuration, a handler, its tests, and a Compose file with a Kafka.",
    ),
    "worker": ("commands.run:worker", "Run a worker: handle the records of the sources until SIGTERM or Ctrl-C."),
    "scheduler": (
        "commands.run:scheduler",
        "Run a scheduler: release retry records when they are due, until SIGTERM or Ctrl-C.",
    ),
    "run": (
        "commands.run:run",
        "Run a worker and a scheduler in one process until SIGTERM or Ctrl-C, for development.",
    ),
    "status": (
        "commands.status:status",
        "Show the group: members, what waits and when it is due, dead letters, pauses, outages, who obeys, faults.",
    ),
    "find": (
        "commands.find:find",
        "Say where a record is: in its source, a handler, a tier, a ready topic or a dead-letter topic, or finished.",
    ),
    "console": (
        "console.command:ConsoleCommand",
        "Serve a web console: what moves and waits, failures, letters, jobs, topology and the audit trail.",
    ),
    "pause": ("commands.pauses:pause", "Pause the group, or the sources and tiers that are named."),
    "resume": ("commands.pauses:resume", "End all pauses, or those of the sources and tiers that are named."),
    "outage": (
        "commands.outage:outage",
        "Show which dependencies are away, since when and who says so; or say that one is away, or back.",
    ),
    "waiting": (
        "commands.waiting:app",
        "List records that wait for a redelivery; deliver them now, give them another due time, or dead-letter them.",
    ),
    "sweep": ("commands.sweep:sweep", "Remove expired dead letters in one pass."),
    "explain": (
        "commands.explain:explain",
        "Explain what happens to a failing record: policy, delays, tiers and dead-letter topic of a destination.",
    ),
    "import": (
        "commands.importing:import_configuration",
        "Print the YAML equivalent of a broker's configuration; notes on standard error name what it leaves out.",
    ),
    "migrate": (
        "commands.migrate:app",
        "Report what a move from ActiveMQ or Artemis needs: delays, topics, rights, letters, steps.",
    ),
    "import-letters": (
        "commands.import_letters:ImportLetters",
        "Move the messages of a dead-letter queue of ActiveMQ Classic or Artemis to dead-letter topics.",
    ),
    "broker": (
        "commands.broker:broker",
        "Run an Apache Kafka on this machine until Ctrl-C: one node on 127.0.0.1, for trying things out.",
    ),
    "topology": ("commands.topology:app", "Plan, create and check the topics of a group."),
    "config": ("commands.config:app", "Check and print the configuration; needs no cluster."),
    "inbox": ("commands.inbox:app", "Print the SQL of the inbox, the table of context.once()."),
    "pipeline": ("commands.pipeline:app", "Run jobs on Spark."),
    "dlq": (
        "commands.dlq_commands:app",
        "List dead letters and send them again, each exactly once: ours, or with --bootstrap those of another system.",
    ),
}
"""For each command the function or group and the line of ``redelivery --help``."""

_EPILOG = "\n".join(["Exit codes", *(f"{code:>3} {text}" for code, text in exit_codes.MEANINGS.items())])


class _Commands(Mapping[str, "TyperCommand | TyperGroup"]):
    """The commands by name. A command is imported when it is looked up."""

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        return _imported(name, _COMMANDS[name][0])

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


@cache
def _imported(name: str, home: str) -> TyperCommand | TyperGroup:
    module, _, attribute = home.partition(":")
    found = getattr(import_module(f"kafka_redelivery.cli.{module}"), attribute)
    alone = Commands()
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name)
    else:
        alone.command(name=name)(found)
    return typer.main.get_group(alone).commands[name]  # type: ignore[return-value]


class _Group(ReportingGroup):
    """The top group. Its help lists the commands without importing them."""

    _lists = False

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - as its base
        super().__init__(**options)
        self.commands = _Commands()  # type: ignore[assignment]

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override] # noqa: ANN401
        self._lists = True
        super().format_help(ctx, formatter)

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]  # noqa: ARG002
        """Return the names; its base looks each command up."""
        return list(_COMMANDS)

    def get_command(self, ctx: typer.Context, cmd_name: str) -> TyperCommand | TyperGroup | None:  # type: ignore[override]
        """Return a command; while the help is written, only its name and summary."""
        if self._lists:
            return TyperCommand(cmd_name, help=_COMMANDS[cmd_name][1])
        return super().get_command(ctx, cmd_name)  # type: ignore[return-value]


app = typer.Typer(
    name="redelivery",
    cls=_Group,
    help="ActiveMQ's redelivery policies and dead-letter strategies for Kafka consumers.",
    epilog=_EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print_text(f"redelivery {version('kafka-redelivery')}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="REDELIVERY_DEBUG", help="Print the traceback of an error.")
    ] = False,
) -> None:
    """Declare the options before the command; `ReportingGroup` reads them."""
