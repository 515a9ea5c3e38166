"""Dead letters, jobs and their previews as plain data for JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import asdict
from typing import Any

from kafka_redelivery.dead_letters.creation import Preview
from kafka_redelivery.dead_letters.exporting import Exportable
from kafka_redelivery.dead_letters.importing import Importable
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.purge import Removable
from kafka_redelivery.dead_letters.reading import StoredLetter
from kafka_redelivery.topology.redrive.actions import End, Outcome
from kafka_redelivery.topology.redrive.exported import ExportedLetter
from kafka_redelivery.topology.redrive.job import Job
from kafka_redelivery.transport.clients.message_headers import headers_of
from kafka_redelivery.transport.protocols import Partition


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


def removable_letters(chosen: Mapping[Partition, Removable], failed: Container[Partition] = ()) -> int:
    """Return the number of letters that can be removed, without those of some partitions."""
    return sum(each.letters for partition, each in chosen.items() if partition not in failed)


def exportable_document(found: Exportable) -> dict[str, Any]:
    """Return how many letters an export has as plain data for JSON."""
    return {
        "letters": found.total,
        "expired": found.expired,
        "kinds": [
            {"origin": origin, "state": state, "letters": number}
            for (origin, state), number in found.kinds.most_common()
        ],
    }


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


def importable_document(found: Importable) -> dict[str, Any]:
    """Return what an import would send, and what it leaves out, as plain data for JSON."""
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
