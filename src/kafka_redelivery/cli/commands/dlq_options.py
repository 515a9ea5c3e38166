"""Options that several commands of `redelivery dlq` share, also those for dead letters of other systems.

Without ``from __future__ import annotations``: commands in other modules inherit the fields of these classes, and typer
needs their types there.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kafka_redelivery.cli.options import DEFAULT_CONFIG, ConfigFile, Overrides, ask, load, named_values
from kafka_redelivery.cli.output import stderr
from kafka_redelivery.dead_letters.foreign.systems import FIELDS, NAMES, Recognition
from kafka_redelivery.dead_letters.letter import LetterState, Selection
from kafka_redelivery.dead_letters.source import LetterSource, OtherSystem
from kafka_redelivery.topology.config.loading import load_policies
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.errors import OptionError

if TYPE_CHECKING:
    from kafka_redelivery.dead_letters.index.index import Index


CreateTopics = Annotated[
    bool,
    typer.Option(
        "--create-topics",
        help="With --bootstrap: create the topics for jobs, which the first redrive or discard needs.",
    ),
]


class _Chosen:
    """What the options before the command say; the command's own options are not known yet."""

    def __init__(self, servers: str, topic: str, recognition: Recognition) -> None:
        self._servers, self._topic, self._recognition = servers, topic, recognition

    def settings(self, overrides: list[str] | None) -> OtherSystem:
        """Return the settings, with those that --set and the environment give for the Kafka clients."""
        given = [f"kafka.bootstrap.servers={self._servers}", *(overrides or ())]
        for each in overrides or ():
            if not each.startswith("kafka."):
                name = each.partition("=")[0]  # the value may be a secret
                raise typer.BadParameter(f"{name!r}: only kafka.* can be set with --bootstrap", param_hint="--set")
        environment = {name: value for name, value in os.environ.items() if name.startswith("REDELIVERY_KAFKA__")}
        settings, _ = load_policies("", name="--bootstrap", environment=environment, overrides=given)
        return OtherSystem(self._topic, settings.kafka, self._recognition)


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
    system: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help=f"With --bootstrap: who wrote letters that several claim: {', '.join(NAMES)}."
        ),
    ] = None,
) -> None:
    """List dead letters and send them again, each exactly once: ours, or with --bootstrap those of another system."""
    if bootstrap is None:
        for value, option in ((topic, "--topic"), (mapping, "--map"), (system, "--system")):
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
    if system is not None and (fields or system not in NAMES):
        problem = "with --map no system is looked for" if fields else f"{system!r} is none of {', '.join(NAMES)}"
        raise typer.BadParameter(problem, param_hint="--system")
    token = _chosen.set(_Chosen(bootstrap, topic, Recognition(tuple(fields.items()), system or "")))
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
    from kafka_redelivery.dead_letters.ledger import create_topics, missing_topics

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


_PATTERN = "; * and ? are wildcards; repeatable."
_Texts = list[str] | None

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
OfGroup = Annotated[
    str | None, typer.Option("--of-group", metavar="GROUP", help="Letters of another consumer group instead of ours.")
]
IndexFolder = Annotated[
    Path | None,
    typer.Option(
        "--index", metavar="FOLDER", help="Where to keep the index of dead letters. Default: in the user's cache."
    ),
]


def load_quietly(config: Path, overrides: list[str] | None) -> Settings:
    """Read the configuration; only warnings are logged, because the output is the result."""
    _log_quietly()
    return load(config, overrides)


def load_letters(config: Path, overrides: list[str] | None) -> LetterSource:
    """Read the configuration, or what replaces it; as :func:`load_quietly`."""
    _log_quietly()
    return foreign_settings(overrides) or load(config, overrides)


def _log_quietly() -> None:
    from kafka_redelivery.consumers.telemetry.logs import log_to_stderr

    log_to_stderr(logging.WARNING, "%(message)s")


@contextmanager
def refreshed_index(
    settings: LetterSource,
    group: str,
    folder: Path | None,
    wanted: Selection | None,
    base: Path,
    *,
    skip_leaderless: bool = False,
) -> "Iterator[Index]":
    """Open an index that can select what is wanted, bring it up to date, and close it on exit.

    ``base`` is the folder of the configuration, ``skip_leaderless`` that of :meth:`Index.refreshed`.
    """
    from kafka_redelivery.cli.progress import progress
    from kafka_redelivery.dead_letters.index.index import Index

    with ExitStack() as shown:
        report_progress = shown.enter_context(progress(stderr(), "reading new dead letters"))
        waiting = cache(_say_why_nothing_happens)
        with Index.refreshed(
            settings,
            group,
            wanted,
            path=folder,
            base=base,
            progress=report_progress,
            waiting=waiting,
            skip_leaderless=skip_leaderless,
        ) as index:
            shown.close()
            undecoded = "" if wanted is None else index.undecoded(wanted)
            if undecoded:
                stderr().print(undecoded)
            yield index


def _say_why_nothing_happens() -> None:
    stderr().print("waiting for another process that brings the index up to date")


@dataclass(frozen=True, kw_only=True)
class OnLetters:
    """A command about the letters of a group."""

    config: ConfigFile = DEFAULT_CONFIG
    overrides: Overrides = None
    of_group: OfGroup = None

    @property
    def base(self) -> Path:
        """The folder of the configuration."""
        return self.config.absolute().parent

    def settings(self) -> LetterSource:
        """Read the configuration, or what replaces it."""
        return load_letters(self.config, self.overrides)


@dataclass(frozen=True, kw_only=True)
class Selecting(OnLetters):
    """A command about the letters of a selection."""

    origins: Annotated[
        _Texts, typer.Option("--origin", metavar="TOPIC", help="Source topic of the letters" + _PATTERN)
    ] = None
    reasons: Annotated[
        _Texts,
        typer.Option("--reason", metavar="REASON", help="Why they died, such as redeliveries_exceeded" + _PATTERN),
    ] = None
    exceptions: Annotated[
        _Texts, typer.Option("--exception", metavar="CLASS", help="Class of the exception" + _PATTERN)
    ] = None
    fingerprints: Annotated[
        _Texts,
        typer.Option(
            "--fingerprint", metavar="HEX", help="Failures of this kind, as `summary` and `show` print it; repeatable."
        ),
    ] = None
    keys: Annotated[_Texts, typer.Option("--key", metavar="TEXT", help="Key of the record; repeatable.")] = None
    headers: Annotated[
        _Texts, typer.Option("--header", metavar="NAME=VALUE", help="A header of the record; repeatable.")
    ] = None
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", help="Died at or after: 02:00, 2026-11-23T02:00 (UTC), or 2h: two hours ago."
        ),
    ] = None
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Died before; as --since.")] = None
    states: Annotated[
        list[LetterState] | None, typer.Option("--state", help="What became of the letter; repeatable.")
    ] = None
    ids: Annotated[
        _Texts,
        typer.Option("--id", metavar="ID", help="TOPIC-PARTITION@OFFSET of a letter or its source record; repeatable."),
    ] = None
    ids_from: Annotated[
        Path | None,
        typer.Option("--ids-from", metavar="FILE", help="A file with an id in each line; - reads the input."),
    ] = None
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="CONDITION",
            help="A condition in SQL, such as \"attempts >= 3 and value ->> '$.carrier' = 'UA'\" (docs/where.md).",
        ),
    ] = None
    index: IndexFolder = None

    def refreshed_index(
        self, settings: LetterSource, wanted: Selection | None, *, skip_leaderless: bool = False
    ) -> "AbstractContextManager[Index]":
        """Open the index of the group, as :func:`refreshed_index`."""
        group = self.of_group or settings.group
        return refreshed_index(settings, group, self.index, wanted, self.base, skip_leaderless=skip_leaderless)

    def selection(self) -> Selection:
        """Return what the options select.

        Raises:
            OptionError: one of them is wrong.
            ExpressionError: ``--where`` cannot be understood.
        """
        from kafka_redelivery.consumers.clock import wall_clock_ms
        from kafka_redelivery.dead_letters.choosing import selection_of

        given = {
            "origin": self.origins,
            "reason": self.reasons,
            "exception": self.exceptions,
            "fingerprint": self.fingerprints,
            "key": self.keys,
            "header": self.headers,
            "since": self.since,
            "until": self.until,
            "state": self.states,
            "id": [*(self.ids or ()), *_lines(self.ids_from)],
            "where": self.where,
        }
        return selection_of(given, wall_clock_ms())


_TEXT: Final = "utf-8-sig"
"""Some editors write a byte order mark."""


def _lines(file: Path | None) -> list[str]:
    if file is None:
        return []
    try:
        if str(file) == "-":
            text = typer.get_text_stream("stdin", encoding=_TEXT).read()
        else:
            text = file.read_text(encoding=_TEXT)
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError("ids-from", f"{file} cannot be read: {error}") from None
    found = [line.strip() for line in text.splitlines() if line.strip()]
    if not found:
        raise OptionError("ids-from", f"{file} has no ids")
    return found
