"""Dead letters and the jobs that send them again, as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.table import Table

from kafka_redelivery.cli.output import print_table
from kafka_redelivery.dead_letters.creation import Preview
from kafka_redelivery.dead_letters.documents import removable_letters
from kafka_redelivery.dead_letters.exporting import Exportable
from kafka_redelivery.dead_letters.importing import Importable
from kafka_redelivery.dead_letters.purge import Removable
from kafka_redelivery.dead_letters.standing import LetterState
from kafka_redelivery.topology.durations import format_duration
from kafka_redelivery.topology.printable import printable_time
from kafka_redelivery.transport.protocols import Partition


def print_kinds(
    console: Console, kinds: Sequence[Mapping[str, Any]], expired: int, others: int, unreadable: int
) -> None:
    """Print a row for each kind of letter, then the total."""
    table = _table("letters", "origin", "reason", "exception", "state", "oldest", "newest")
    for kind in kinds:
        times = printable_time(kind["oldestMs"]), printable_time(kind["newestMs"])
        table.add_row(str(kind["letters"]), kind["origin"], kind["reason"], kind["exception"], kind["state"], *times)
    if table.row_count:
        print_table(console, table)
    console.print(f"{sum(kind['letters'] for kind in kinds)} dead letters{left_out(expired, others, unreadable)}")


def left_out(expired: int, others: int, unreadable: int) -> str:
    """Return which records of the dead-letter topics a total leaves out."""
    hidden = f", {expired} expired ones are hidden" if expired else ""
    hidden += f", {others} of other groups are left out (--of-group)" if others else ""
    return hidden + (f", {unreadable} records that name no group are no dead letters" if unreadable else "")


def print_letters(console: Console, letters: Iterable[Mapping[str, Any]]) -> None:
    """Print a row for each letter, from its document."""
    table = _table("id", "died", "key", "reason", "exception", "message", "state", "job")
    for each in letters:
        row = (each["id"], printable_time(each["diedMs"]), each["key"] or "")
        table.add_row(*row, each["reason"], each["exception"], each["message"], each["state"], each["job"] or "")
    print_table(console, table)


def print_exportable(console: Console, found: Exportable) -> None:
    """Print how many letters an export has, by origin and state."""
    table = _table("letters", "origin", "state")
    for (origin, state), number in found.kinds.most_common():
        table.add_row(str(number), origin, state)
    if table.row_count:
        print_table(console, table)
    expired = f", {found.expired} of them expired" if found.expired else ""
    console.print(f"{found.total} dead letters to export{expired}")


def print_preview(console: Console, chosen: Preview) -> None:
    """Print how many letters a job would send, where to, and how long it takes."""
    options = chosen.options
    if options.discard and chosen.total:
        console.print(f"{chosen.total} dead letters to discard")
    for topic, number in sorted(chosen.targets.items()):
        console.print(f"{number} dead letters to {topic}")
    for number, what in (
        (chosen.parking, f"to the parking topic: sent again {options.max_redrives} times or more before"),
        (chosen.refused, "will be refused: what they say about their origin is damaged"),
        (chosen.no_content, "will be refused (no_content): their system wrote them without the record (--allow-empty)"),
        (chosen.redriven_before, "of them were sent again before"),
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
    ):
        if number:
            console.print(f"{number} are left out: {why}")
    if not chosen.total:
        console.print("nothing to discard" if options.discard else "nothing to send")


def print_jobs(console: Console, documents: Sequence[dict[str, Any]]) -> None:
    """Print a row for each job."""
    results = ("recovered", "deadAgain", "discarded", "expired", "unknown")
    columns = ("letters", "sent", *results, "gone", "parked", "refused", "setAside")
    headings = {"deadAgain": "dead again", "setAside": "set aside"}
    table = _table("job", "kind", "state", "created", "by", *(headings.get(each, each) for each in columns))
    for each in documents:
        numbers = (str(each[name]) for name in columns)
        table.add_row(each["job"], each["kind"], each["state"], printable_time(each["createdMs"]), each["by"], *numbers)
    if documents:
        print_table(console, table)
    else:
        console.print("no job has been created yet")


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
    table = _table("dead-letter topic", "partition", "to remove", "then")
    for partition, each in chosen.items():
        table.add_row(partition.topic, str(partition.number), str(each.letters), each.because)
    print_table(console, table)
    console.print(f"{removable_letters(chosen)} dead letters to remove")


def print_importable(console: Console, found: Importable) -> None:
    """Print how many letters an import would send, where to, and why it leaves others out."""
    for topic, number in sorted(found.topics.items()):
        console.print(f"{number} dead letters to {topic}")
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


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
