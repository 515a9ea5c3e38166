"""Dead letters and the jobs that send them again, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.table import Table

from kafka_redelivery.cli.output import print_table
from kafka_redelivery.dead_letters.creation import Preview
from kafka_redelivery.dead_letters.exporting import Exportable
from kafka_redelivery.dead_letters.importing import Importable
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.purge import Removable
from kafka_redelivery.dead_letters.reading import StoredLetter
from kafka_redelivery.dead_letters.standing import LetterState
from kafka_redelivery.topology.durations import format_duration
from kafka_redelivery.topology.printable import printable_time
from kafka_redelivery.topology.redrive.actions import End, Outcome
from kafka_redelivery.topology.redrive.exported import ExportedLetter
from kafka_redelivery.topology.redrive.job import Job
from kafka_redelivery.transport.clients.message_headers import headers_of
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


def letter_document(each: StoredLetter) -> dict[str, Any]:
    """Return a letter as plain data for JSON, without its value; with ``failureDetails: class-only`` as the index does.

    That is without key and text of the exception.
    """
    letter, standing, _ = each
    key = None if letter.class_only else letter.key
    return {
        "id": letter.id,
        "sourceId": letter.message_id,
        "group": letter.group,
        "origin": letter.origin,
        "diedMs": letter.timestamp_ms,
        "key": None if key is None else key.decode(errors="replace"),
        "reason": letter.reason,
        "exception": letter.exception,
        "message": "" if letter.class_only else letter.message,
        "fingerprint": letter.fingerprint,
        "deliveries": letter.deliveries,
        "expiresMs": letter.expiration_ms or None,
        "redrives": letter.mark.number if letter.mark else 0,
        "state": standing.state,
        "job": standing.job,
        "sends": standing.sends,
    }


def exported_document(each: StoredLetter) -> dict[str, Any]:
    """Return a letter with all its bytes as plain data for JSON."""
    letter, standing, message = each
    content = message.key(), message.value(), headers_of(message)
    return ExportedLetter(letter.id, letter.timestamp_ms, *content, standing.state).document(letter.message_id)


def print_exportable(console: Console, found: Exportable) -> None:
    """Print how many letters an export has, by origin and state."""
    table = _table("letters", "origin", "state")
    for (origin, state), number in found.kinds.most_common():
        table.add_row(str(number), origin, state)
    if table.row_count:
        print_table(console, table)
    expired = f", {found.expired} of them expired" if found.expired else ""
    console.print(f"{found.total} dead letters to export{expired}")


def exportable_document(found: Exportable) -> dict[str, Any]:
    """Return the same as plain data for JSON."""
    return {
        "letters": found.total,
        "expired": found.expired,
        "kinds": [
            {"origin": origin, "state": state, "letters": number}
            for (origin, state), number in found.kinds.most_common()
        ],
    }


def preview_document(chosen: Preview) -> dict[str, Any]:
    """Return a preview as plain data for JSON."""
    options = chosen.options
    return {
        "letters": chosen.total,
        "targets": dict(chosen.targets),
        "seconds": None if options.rate is None else round(chosen.total / options.rate, 1),
        "redrivenBefore": chosen.redriven_before,
        "parking": chosen.parking,
        "refused": chosen.refused,
        "noContent": chosen.no_content,
        "inJobs": dict(chosen.in_jobs),
        "sentBefore": chosen.sent_before,
        "expired": chosen.expired,
    }


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


def job_document(ledger: Ledger, job: Job) -> dict[str, Any]:
    """Return a job as plain data for JSON."""
    slices = [ledger.actions.slice(job.id, number) for number in range(len(job.owned))]
    both = list(zip(slices, job.owned, strict=True))
    outcomes = Counter(outcome for each, owned in both for outcome in each.known(owned).values())
    sent = sum(each.sent for each in slices)
    ends = {each.end for each in slices}
    if None in ends:
        state = "cancelling" if job.cancelled_ms is not None else "unreadable" if job.problem else "unfinished"
    else:
        state = "cancelled" if End.CANCELLED in ends else "done"
    return {
        "job": job.id,
        "kind": job.spec.kind,
        "state": state,
        "createdMs": job.spec.at_ms,
        "by": job.spec.by,
        "letters": sum(map(len, job.owned)),
        "inOtherJobs": sum(map(len, job.letters)) - sum(map(len, job.owned)),
        "sent": sent,
        **{_camel(outcome): outcomes[outcome] for outcome in Outcome},
        "setAside": sum(len(each.set_aside) for each in slices),
        "unknown": max(0, sent - outcomes.total()),
        "gone": sum(len(each.gone) for each in slices),
        "parked": sum(len(each.parked) for each in slices),
        "refused": sum(len(each.refused) for each in slices),
        "contradictory": sum(each.contradictory(owned) for each, owned in both),
        "refusals": sorted({reason for each in slices for reason in each.refused.values()})[:10],
        "createdAgain": job.spec.topics.difference(ledger.topics, "the job was created") or None,
        "options": {
            "group": job.spec.options.group,
            "to": job.spec.options.to,
            "ready": job.spec.options.ready,
            "rate": job.spec.options.rate,
            "again": job.spec.options.again,
            "keepAttempts": job.spec.options.keep_attempts,
            "maxRedrives": job.spec.options.max_redrives,
            "allowEmpty": job.spec.options.allow_empty,
        },
        "selection": dict(job.spec.selection),
        "edited": edited_document(job),
    }


def edited_document(job: Job) -> dict[str, Any] | None:
    """Return sizes and checksums of the edited value that a job sends, and of the letter's own; not the values."""
    edited = job.spec.edited
    return None if edited is None else {_camel(name): value for name, value in asdict(edited).items()}


def all_sent(document: Mapping[str, Any]) -> bool:
    """Whether a job has ended, and no letter of it was refused or gone; the letter of an edit was sent by it."""
    edited = document.get("kind") != "edit" or document["letters"] > 0
    failed = any(document[name] for name in ("refused", "gone", "contradictory"))
    return edited and document["state"] == "done" and not failed


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


def removable_letters(chosen: Mapping[Partition, Removable], failed: Container[Partition] = ()) -> int:
    """Return the number of letters that can be removed, without those of some partitions."""
    return sum(each.letters for partition, each in chosen.items() if partition not in failed)


def removable_document(chosen: Mapping[Partition, Removable], failed: Mapping[Partition, str]) -> dict[str, Any]:
    """Return what can be removed as plain data for JSON; ``failed``: the partitions of which Kafka removes nothing."""
    return {
        "removed": removable_letters(chosen, failed),
        "partitions": [
            {
                "topic": partition.topic,
                "partition": partition.number,
                "letters": each.letters,
                "before": each.before,
                "then": each.because,
                "problem": failed.get(partition),
            }
            for partition, each in chosen.items()
        ],
    }


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


def importable_document(found: Importable) -> dict[str, Any]:
    """Return the same as plain data for JSON."""
    return {
        "letters": len(found.missing),
        "topics": dict(found.topics),
        "states": dict(found.states),
        "present": found.present,
        "expired": found.expired,
        "ofOthers": found.others,
    }


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
