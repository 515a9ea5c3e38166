"""The options of `redelivery dlq` that select dead letters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafka_redelivery.cli.options import point_in_time
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.standing import LetterState

if TYPE_CHECKING:
    from kafka_redelivery.dead_letters.where.where import Where

_PATTERN = "; * and ? are wildcards; repeatable."

Origins = Annotated[
    list[str] | None, typer.Option("--origin", metavar="TOPIC", help="Source topic of the letters" + _PATTERN)
]
Reasons = Annotated[
    list[str] | None,
    typer.Option("--reason", metavar="REASON", help="Why they died, such as redeliveries_exceeded" + _PATTERN),
]
Exceptions = Annotated[
    list[str] | None, typer.Option("--exception", metavar="CLASS", help="Class of the exception" + _PATTERN)
]
Fingerprints = Annotated[
    list[str] | None,
    typer.Option(
        "--fingerprint", metavar="HEX", help="Failures of this kind, as `summary` and `show` print it; repeatable."
    ),
]
Keys = Annotated[list[str] | None, typer.Option("--key", metavar="TEXT", help="Key of the record; repeatable.")]
HeaderValues = Annotated[
    list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="A header of the record; repeatable.")
]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="Died at or after: 2026-11-23T02:00 (UTC), or 2h: two hours ago."),
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Died before; as --since.")]
States = Annotated[list[LetterState] | None, typer.Option("--state", help="What became of the letter; repeatable.")]
Ids = Annotated[
    list[str] | None,
    typer.Option("--id", metavar="ID", help="TOPIC-PARTITION@OFFSET of a letter or its source record; repeatable."),
]
IdsFrom = Annotated[
    Path | None, typer.Option("--ids-from", metavar="FILE", help="A file with an id in each line; - reads the input.")
]
Condition = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="A condition in SQL, such as \"attempts >= 3 and value ->> '$.carrier' = 'UA'\" (docs/where.md).",
    ),
]
OfGroup = Annotated[
    str | None, typer.Option("--of-group", metavar="GROUP", help="Letters of another consumer group instead of ours.")
]


IndexFolder = Annotated[
    Path | None,
    typer.Option(
        "--index", metavar="FOLDER", help="Where to keep the index of dead letters. Default: in the user's cache."
    ),
]


def selecting(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that select dead letters, in place of its parameter ``wanted``."""
    options = inspect.signature(selection, eval_str=True).parameters

    @wraps(command)
    def run(**values: Any) -> None:  # noqa: ANN401 - the values of all options
        wanted = selection(**{name: values.pop(name) for name in options})
        command(wanted=wanted, **values)

    parameters: list[inspect.Parameter] = []
    for name, each in inspect.signature(command, eval_str=True).parameters.items():
        parameters += options.values() if name == "wanted" else [each]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # what typer reads
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def selection(
    origins: Origins = None,
    reasons: Reasons = None,
    exceptions: Exceptions = None,
    fingerprints: Fingerprints = None,
    keys: Keys = None,
    headers: HeaderValues = None,
    since: Since = None,
    until: Until = None,
    states: States = None,
    ids: Ids = None,
    ids_from: IdsFrom = None,
    where: Condition = None,
) -> Selection:
    """Return what the options select.

    Raises:
        ExpressionError: ``where`` cannot be understood.
        typer.BadParameter: another option cannot.
    """
    pairs = [tuple(each.partition("=")[::2]) for each in headers or ()]
    for text, (name, _) in zip(headers or (), pairs, strict=True):
        if "=" not in text or not name:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--header")
    for text in fingerprints or ():
        if not re.fullmatch("[0-9a-f]{16}", text):
            raise typer.BadParameter(f"{text!r} is not 16 hex digits", param_hint="--fingerprint")
    from kafka_redelivery.consumers.clock import wall_clock_ms

    now_ms = wall_clock_ms()
    names = frozenset(ids or ()) | _lines(ids_from)
    if ids_from is not None and not names:
        raise typer.BadParameter(f"{ids_from} has no ids", param_hint="--ids-from")
    return Selection(
        origins=tuple(origins or ()),
        reasons=tuple(reasons or ()),
        exceptions=tuple(exceptions or ()),
        fingerprints=tuple(fingerprints or ()),
        keys=tuple(keys or ()),
        headers=tuple((name, value) for name, value in pairs),
        since_ms=None if since is None else point_in_time(since, "--since", now_ms, ago=True),
        until_ms=None if until is None else point_in_time(until, "--until", now_ms, ago=True),
        states=tuple(states or ()),
        ids=names,
        where=None if where is None else condition(where, now_ms),
    )


def condition(text: str, now_ms: int) -> Where:
    """Return what an option `--where` says.

    Raises:
        ExpressionError: it cannot be understood.
    """
    from kafka_redelivery.dead_letters.where.where import Where

    return Where.of(text, now_ms)


def _lines(file: Path | None) -> frozenset[str]:
    if file is None:
        return frozenset()
    try:
        text = typer.get_text_stream("stdin").read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file} cannot be read: {error}", param_hint="--ids-from") from None
    return frozenset(line.strip() for line in text.splitlines() if line.strip())
