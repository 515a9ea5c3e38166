"""Dead letters and the jobs that send them again, as text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kafka_redelivery.cli.output import plain_table, print_json, print_table
from kafka_redelivery.dead_letters.creation import Preview
from kafka_redelivery.dead_letters.exporting import Exportable
from kafka_redelivery.dead_letters.importing import Importable
from kafka_redelivery.dead_letters.index.summary import Summary, SummaryRow
from kafka_redelivery.dead_letters.letter import By, LetterState
from kafka_redelivery.dead_letters.purge import Removable, removable_letters
from kafka_redelivery.topology.durations import format_duration
from kafka_redelivery.topology.printable import printable, printable_time
from kafka_redelivery.transport.protocols import Partition

_BARS: Final = "▁▂▃▄▅▆▇█"
_FAILURE: Final = 60
_NAMED: Final = 5
"""Ids that are named."""

_FAILURES: Final = 5
"""Kinds of failures that are named before their letters are sent or set aside."""


def print_kinds(
    console: Console, kinds: Sequence[Mapping[str, Any]], expired: int, others: int, unreadable: int
) -> None:
    """Print a row for each kind of letter, then the total."""
    table = plain_table("letters", "origin", "reason", "exception", "state", "oldest", "newest")
    for kind in kinds:
        times = printable_time(kind["oldestMs"]), printable_time(kind["newestMs"])
        table.add_row(str(kind["letters"]), kind["origin"], kind["reason"], kind["exception"], kind["state"], *times)
    if table.row_count:
        print_table(console, table)
    console.print(f"{letters_text(sum(kind['letters'] for kind in kinds))}{left_out(expired, others, unreadable)}")


def left_out(expired: int, others: int, unreadable: int) -> str:
    """Return which records of the dead-letter topics a total leaves out."""
    hidden = f", {expired} expired ones are hidden" if expired else ""
    hidden += f", {others} of other groups are left out (--of-group)" if others else ""
    return hidden + (f", {unreadable} records that name no group are no dead letters" if unreadable else "")


def print_letters(console: Console, letters: Iterable[Mapping[str, Any]]) -> None:
    """Print a row for each letter, from its document."""
    table = plain_table("id", "died", "key", "reason", "exception", "message", "state", "job")
    for each in letters:
        row = (each["id"], printable_time(each["diedMs"]), each["key"] or "")
        message = each["message"].replace("\n", " ")
        table.add_row(*row, each["reason"], each["exception"], message, each["state"], each["job"] or "")
    print_table(console, table)


def print_exportable(console: Console, found: Exportable) -> None:
    """Print how many letters an export has, by origin and state."""
    table = plain_table("letters", "origin", "state")
    for (origin, state), number in found.kinds.most_common():
        table.add_row(str(number), origin, state)
    if table.row_count:
        print_table(console, table)
    expired = f", {found.expired} of them expired" if found.expired else ""
    console.print(f"{letters_text(found.total)} to export{expired}")


def letters_text(number: int) -> str:
    """Return ``1 dead letter`` or ``2 dead letters``."""
    return "1 dead letter" if number == 1 else f"{number} dead letters"


def print_failures(console: Console, found: Summary) -> None:
    """Print which failures the selected letters have."""
    for row in found.rows[:_FAILURES]:
        console.print(f"selected: {row.letters} x {' '.join(_cause(row))}")
    more = found.rows[_FAILURES:]
    if more:
        kinds = "failure" if len(more) == 1 else "failures"
        console.print(f"selected: {sum(row.letters for row in more)} of {len(more)} more {kinds}")


def print_preview(console: Console, chosen: Preview) -> None:
    """Print how many letters a job would send, where to, and how long it takes."""
    options = chosen.options
    if options.discard and chosen.total:
        console.print(f"{letters_text(chosen.total)} to discard")
    for topic, number in sorted(chosen.targets.items()):
        console.print(f"{letters_text(number)} to {topic}")
    for number, what in (
        (chosen.parking, f"to the parking topic: sent again {options.max_redrives} times or more before"),
        (
            chosen.refused - chosen.unrecognised - chosen.claimed.total(),
            "will be refused: what they say about their origin is damaged",
        ),
        (chosen.unrecognised, "will be refused: system not recognised; use --map or --to"),
        *(
            (each, f"will be refused: {names} could have written them; say which one with --system")
            for names, each in sorted(chosen.claimed.items())
        ),
        (chosen.no_content, "will be refused (no_content): their system wrote them without the record (--allow-empty)"),
        (
            chosen.gone,
            "will be refused (gone): no content, and their records are not there, or not committed yet (--allow-empty)",
        ),
        (chosen.fetched, f"of them are fetched from where they came from, {chosen.fetched_bytes:,} bytes"),
        (chosen.by_time_only, "of these are verified by time only: the letter has no key to compare"),
        (chosen.headers_lost, "of them have lost the headers of their records (--restore-headers)"),
        (
            chosen.redriven_before,
            f"of them {'were sent again before' if options.again else 'died again after a redrive'}",
        ),
        (len(chosen.unknown_ids), no_letters(chosen.unknown_ids)),
    ):
        if number:
            console.print(f"{number} {what}")
    if options.rate is not None and chosen.total:
        duration = format_duration(timedelta(seconds=max(1, round(chosen.total / options.rate))))
        console.print(f"at {options.rate:g} a second this takes about {duration}")
    for job, number in sorted(chosen.in_jobs.items()):
        console.print(f"{number} are left out: already in job {job}")
    more = "--state sent sets aside those without an outcome" if options.discard else "--again sends them, too"
    for number, why in (
        (chosen.sent_before, f"sent, set aside or gone before ({more})"),
        (chosen.expired, "they have expired"),
        (chosen.duplicates, "duplicates of messages that were delivered (--reason duplicate sends them)"),
        *((number, f"there is no topic {topic} to send to") for topic, number in sorted(chosen.skipped.items())),
    ):
        if number:
            console.print(f"{number} are left out: {why}")
    if not chosen.total:
        console.print("nothing to discard" if options.discard else "nothing to send")


def no_letters(ids: Sequence[str]) -> str:
    """Return what follows the number of ids that no letter has."""
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    verb = "is" if len(ids) == 1 else "are"
    return f"of the ids {verb} mistyped, or of no letter of the group (any more): {', '.join(ids[:_NAMED])}{more}"


def print_jobs(console: Console, documents: Sequence[dict[str, Any]]) -> None:
    """Print a row for each job."""
    results = ("recovered", "deadAgain", "discarded", "expired", "unknown")
    columns = ("letters", "sent", *results, "gone", "parked", "refused", "setAside")
    headings = {"deadAgain": "dead again", "setAside": "set aside"}
    said = [_systems(each["options"]) for each in documents]
    more = ["recognised by"] if any(said) else []
    table = plain_table("job", "kind", "state", "created", "by", *(headings.get(each, each) for each in columns), *more)
    for each, systems in zip(documents, said, strict=True):
        numbers = (str(each[name]) for name in columns)
        cells = (each["job"], each["kind"], each["state"], printable_time(each["createdMs"]), each["by"], *numbers)
        table.add_row(*cells, *([systems] if more else []))
    if documents:
        print_table(console, table)
    else:
        console.print("no job has been created yet")


def _systems(options: Mapping[str, Any]) -> str:
    """Return what the author of a job has said about the systems of its letters."""
    said = [f"--map {field}={header}" for field, header in (options["map"] or {}).items()]
    return " ".join([*said, *([f"--system {options['system']}"] if options["system"] else [])])


def print_job(console: Console, document: dict[str, Any]) -> None:
    """Print what a job has done."""
    text = f"job {document['job']} is {document['state']}: {document['sent']} of {document['letters']} letters sent"
    if document["kind"] == "discard":
        text = (
            f"job {document['job']} is {document['state']}: {document['setAside']} of {document['letters']} discarded"
        )
    for name in ("gone", "parked", "refused"):
        text += f", {document[name]} {name}" if document[name] else ""
    console.print(text)
    if document["state"] == "cancelled":
        dealt = sum(document[name] for name in ("sent", "setAside", "gone", "parked", "refused"))
        console.print(f"cancelled: {document['letters'] - dealt} letters were not, and are free for other jobs")
    if document["inOtherJobs"]:
        console.print(f"{document['inOtherJobs']} letters are left to other jobs, which listed them first")
    for reason in document["refusals"]:
        console.print(f"refused: {reason}")
    if document["createdAgain"]:
        console.print(f"{document['createdAgain']}, so its letters are not there any more")
    if document["contradictory"]:
        console.print(
            f"{document['contradictory']} letters may have been sent or not: what the topic of the actions says cannot "
            "be read or does not fit the job, so another program or person has written there"
        )


def print_removable(console: Console, chosen: Mapping[Partition, Removable]) -> None:
    """Print what can be removed from each partition, and why the next letter stays."""
    table = plain_table("dead-letter topic", "partition", "to remove", "then")
    for partition, each in chosen.items():
        table.add_row(partition.topic, str(partition.number), str(each.letters), each.because)
    print_table(console, table)
    console.print(f"{letters_text(removable_letters(chosen))} to remove")


def print_importable(console: Console, found: Importable) -> None:
    """Print how many letters an import would send, where to, and why it leaves others out."""
    for topic, number in sorted(found.topics.items()):
        console.print(f"{letters_text(number)} to {topic}")
    for state, number in sorted(found.states.items()):
        if state and state != LetterState.WAITING:
            console.print(f"{number} of them were {state} when they were exported")
    for number, why in (
        (found.present, "still in their topic, or imported before"),
        (found.expired, "they have expired"),
        (found.others, "of other groups (--of-group)"),
    ):
        if number:
            console.print(f"{number} are left out: {why}")
    if not found.missing:
        console.print("nothing to import")


def unread_partitions(unread: Collection[Partition]) -> dict[str, list[str]]:
    """Return the field of a document that names the partitions without a leader; none if there is none."""
    return {"unreadPartitions": [str(each) for each in sorted(unread)]} if unread else {}


def print_summary(
    console: Console, summary: Summary, by: Sequence[By], limit: int, unread: Collection[Partition], *, as_json: bool
) -> None:
    """Print a row for each kind, the most frequent first, then the total. ``unread``: partitions without a leader."""
    if as_json:
        print_json(_summary_document(summary, limit) | unread_partitions(unread))
        return
    if summary.rows:
        print_table(console, _summary_table(summary, by, limit))
    console.print(_summary_total(summary, limit))


@contextmanager
def following(
    console: Console, by: Sequence[By], limit: int, *, as_json: bool
) -> Iterator[Callable[[Summary, str], None]]:
    """Yield a function that shows a summary, and the problem that keeps it from being current, if there is one.

    On a terminal it replaces the table by one with what was added since the first, and leaves the last. Elsewhere it
    prints a line if more than the time has changed.
    """
    before: object = None
    first: Mapping[tuple[object, ...], int] | None = None

    def show(summary: Summary, problem: str) -> None:
        nonlocal before, first
        line = f"{printable_time(summary.to_ms)}: {_summary_total(summary, limit)}" + (
            f"; {problem}" if problem else ""
        )
        if live is not None:
            if first is None:
                first = {tuple(row.kind.values()): row.letters for row in summary.rows}
            text = Text(printable(line), style="yellow" if problem else "")
            live.update(Group(text, _summary_table(summary, by, limit, first)), refresh=True)
            return
        kinds = [(row.kind, row.states, row.recovered) for row in summary.rows[:limit]]
        now = kinds, summary._replace(rows=[], from_ms=0, to_ms=0), bool(problem)
        if now != before and as_json:
            print_json(_summary_document(summary, limit, problem), indent=None)
        elif now != before:
            console.print(line)
        before = now

    on_screen = console.is_terminal and not as_json
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") if on_screen else nullcontext() as live:
        yield show


def _summary_total(summary: Summary, limit: int) -> str:
    more = f"; {len(summary.rows) - limit} more kinds (--limit)" if len(summary.rows) > limit else ""
    return f"{letters_text(summary.letters)}{left_out(summary.expired, summary.others, summary.unreadable)}{more}"


def _summary_document(summary: Summary, limit: int, problem: str = "") -> dict[str, Any]:
    return {
        "ok": not problem,
        **({"problem": problem} if problem else {}),
        "letters": summary.letters,
        "expired": summary.expired,
        "ofOthers": summary.others,
        "unreadable": summary.unreadable,
        "fromMs": summary.from_ms,
        "toMs": summary.to_ms,
        "kinds": [
            {
                **{each.value: value for each, value in row.kind.items()},
                "letters": row.letters,
                "states": row.states,
                "firstMs": row.born_ms,
                "oldestMs": row.first_ms,
                "newestMs": row.last_ms,
                "trend": list(row.trend),
                "expiresMs": row.expires_ms,
                "sent": row.sent,
                "recovered": row.recovered,
                "example": {"exception": row.exception, "message": row.message, "place": row.place},
                **({"texts": _texts(row), "distinctTexts": row.distinct} if row.texts else {}),
            }
            for row in summary.rows[:limit]
        ],
        "moreKinds": max(0, len(summary.rows) - limit),
    }


def _summary_table(
    summary: Summary, by: Sequence[By], limit: int, before: Mapping[tuple[object, ...], int] | None = None
) -> Table:
    """Return a row for each kind; with the numbers of letters ``before`` also a column with the difference."""
    changes = [] if before is None else ["change"]
    shown = summary.rows[:limit]
    born = ["first"] if any(row.born_ms < row.first_ms for row in shown) else []  # of letters that are not meant
    what = [*by, *(["failure"] if By.FINGERPRINT in by else []), *([] if By.STATE in by else ["states"])]
    headings = ("letters", *changes, *what, *born, "oldest", "newest", "trend", "expires", "recovered")
    table = plain_table(*headings, right={"letters", "change"})
    for row in shown:
        change = 0 if before is None else row.letters - before.get(tuple(row.kind.values()), 0)
        cells = [str(row.letters), *([f"{change:+d}" if change else ""] if changes else [])]
        cells += ["" if row.kind[each] is None else str(row.kind[each]) for each in by]
        cells += [_failure(row)] if By.FINGERPRINT in by else []
        cells += [] if By.STATE in by else [", ".join(f"{number} {state}" for state, number in row.states.items())]
        cells += [printable_time(row.born_ms)] if born else []
        times = (printable_time(row.first_ms), printable_time(row.last_ms), sparkline(row.trend))
        expires = "" if row.expires_ms is None else printable_time(row.expires_ms)
        table.add_row(*cells, *times, expires, f"{row.recovered / row.sent:.0%} of {row.sent}" if row.sent else "")
    return table


def sparkline(numbers: Sequence[int]) -> str:
    """Return a bar for each number, blank for zero."""
    highest = max(numbers, default=0) or 1
    return "".join(" " if not each else _BARS[(each * len(_BARS) - 1) // highest] for each in numbers)


def _cause(row: SummaryRow) -> list[str]:
    text = ": ".join(each for each in (row.exception, row.message) if each)
    return [_folded(text), *([f"in {row.place}"] if row.place else [])]


def _failure(row: SummaryRow) -> str:
    lines = _cause(row)
    if row.distinct > 1:
        look = {_folded(text) for text, _ in row.texts}
        listed = row.texts if len(look) == len(row.texts) else ()
        lines += [f"{letters} x {_folded(text)}" for text, letters in listed]
        more = row.distinct - len(listed)
        lines += [f"{more} {'more ' if listed else ''}{'text' if more == 1 else 'texts'}"] if more else []
    return "\n".join(lines)


def _texts(row: SummaryRow) -> list[dict[str, Any]]:
    return [{"text": text, "letters": letters} for text, letters in row.texts]


def _folded(text: str) -> str:
    text = text.replace("\n", " ")
    return text if len(text) <= _FAILURE else text[: _FAILURE - 1] + "…"
