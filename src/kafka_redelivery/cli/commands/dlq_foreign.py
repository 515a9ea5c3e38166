"""The options of `redelivery dlq` for dead letters of other systems, which need no configuration file."""

from __future__ import annotations

import os
from contextvars import ContextVar
from typing import Annotated

import typer

from kafka_redelivery.cli.commands.confirmation import ask
from kafka_redelivery.cli.options import named_values
from kafka_redelivery.cli.output import stderr
from kafka_redelivery.dead_letters.foreign.mapping import FIELDS
from kafka_redelivery.dead_letters.source import LetterSource, OtherSystem
from kafka_redelivery.topology.config.loading import load_policies

CreateTopics = Annotated[
    bool,
    typer.Option(
        "--create-topics",
        help="With --bootstrap: create the topics for jobs, which the first redrive or discard needs.",
    ),
]


class _Chosen:
    """What the options before the command say; the command's own options are not known yet."""

    def __init__(self, servers: str, topic: str, mapping: dict[str, str]) -> None:
        self._servers, self._topic, self._mapping = servers, topic, mapping

    def settings(self, overrides: list[str] | None) -> OtherSystem:
        """Return the settings, with those that --set and the environment give for the Kafka clients."""
        given = [f"kafka.bootstrap.servers={self._servers}", *(overrides or ())]
        for each in overrides or ():
            if not each.startswith("kafka."):
                name = each.partition("=")[0]  # the value may be a secret
                raise typer.BadParameter(f"{name!r}: only kafka.* can be set with --bootstrap", param_hint="--set")
        environment = {name: value for name, value in os.environ.items() if name.startswith("REDELIVERY_KAFKA__")}
        settings, _ = load_policies("", name="--bootstrap", environment=environment, overrides=given)
        return OtherSystem(self._topic, settings.kafka, self._mapping)


_chosen: ContextVar[_Chosen | None] = ContextVar("chosen", default=None)
"""Not the context's own object: typer's public interface does not give a command its context."""


def foreign_options(
    context: typer.Context,
    bootstrap: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT,...", help="Dead letters of another system in this cluster; no configuration."),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="With --bootstrap: their dead-letter topic.")
    ] = None,
    mapping: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="FIELD=HEADER",
            help=f"With --bootstrap, for a system that is not known: the header of {', '.join(FIELDS)}; repeatable.",
        ),
    ] = None,
) -> None:
    """List dead letters and send them again, each exactly once: ours, or with --bootstrap those of another system."""
    if bootstrap is None:
        for value, option in ((topic, "--topic"), (mapping, "--map")):
            if value:
                raise typer.BadParameter(
                    "add --bootstrap HOST:PORT, the cluster of the other system", param_hint=option
                )
        return
    if topic is None:
        raise typer.BadParameter("--bootstrap needs --topic TOPIC, the dead-letter topic", param_hint="--topic")
    fields = named_values(mapping, "--map")
    for field in fields:
        if field not in FIELDS:
            raise typer.BadParameter(f"{field!r} is none of {', '.join(FIELDS)}", param_hint="--map")
    token = _chosen.set(_Chosen(bootstrap, topic, fields))
    context.call_on_close(lambda: _chosen.reset(token))


def foreign_settings(overrides: list[str] | None) -> OtherSystem | None:
    """Return the settings for another system's dead letters; ``None`` if these are ours."""
    chosen = _chosen.get()
    return None if chosen is None else chosen.settings(overrides)


def create_missing(settings: LetterSource, *, create: bool, yes: bool, as_json: bool) -> None:
    """Create the topics for jobs over another system's dead letters, if they are missing and a person agrees.

    Raises:
        typer.BadParameter: there is no terminal to ask on.
    """
    if not isinstance(settings, OtherSystem):
        if create:
            raise typer.BadParameter(
                "leave it out: without --bootstrap, redelivery topology apply creates the topics",
                param_hint="--create-topics",
            )
        return
    from kafka_redelivery.dead_letters.foreign_topics import create_topics, missing_topics

    missing = missing_topics(settings)
    if not missing:
        return
    names = ", ".join(each.name for each in missing)
    if not create:
        if yes or as_json:
            raise typer.BadParameter(
                f"the topics for jobs do not exist yet; add --create-topics, which creates {names}",
                param_hint="--create-topics",
            )
        stderr().print(f"Jobs over {settings.dead_letter_topic} need topics that do not exist yet: {names}.")
        stderr().print("Letters go to the topics that their headers name. Every group that reads those gets them.")
        ask("create the topics?")
    create_topics(settings, missing)
