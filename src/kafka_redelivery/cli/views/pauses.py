"""Pauses, and which processes obey them, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafka_redelivery.consumers.operations.pausing import AppliedPauses
from kafka_redelivery.consumers.process.pause_watch import pause_text


def pause_lines(seen: AppliedPauses) -> Iterator[str]:
    """Yield a line for each pause."""
    for each in seen.pauses:
        yield f"paused: {pause_text(each)}"
    if not seen.pauses:
        yield "nothing is paused"


def process_lines(seen: AppliedPauses) -> Iterator[str]:
    """Yield a line about the processes that obey the newest change, and one for each that does not yet."""
    if not seen.end:
        return
    obeying = [f"{name.role} {name.instance}" for name, each in seen.processes.items() if each.offset >= seen.end]
    if obeying:
        yield f"obeyed by {', '.join(obeying)}"
    elif seen.members == 0:
        yield "no process of the group runs; each obeys when it is started"
    for name, each in seen.processes.items():
        if each.offset < seen.end:
            yield f"{name.role} {name.instance} has applied control offset {each.offset}, not yet {seen.end}"


def pausing_document(seen: AppliedPauses) -> dict[str, Any]:
    """Return the same as a JSON document."""
    return pauses_document(seen) | processes_document(seen)


def pauses_document(seen: AppliedPauses) -> dict[str, Any]:
    """Return the pauses as a JSON document."""
    return {
        "pauses": [
            {
                "scope": str(each.target.scope),
                "topic": each.target.topic or None,
                "sinceMs": each.since_ms,
                "untilMs": each.until_ms,
                "by": each.by or None,
                "note": each.note or None,
            }
            for each in seen.pauses
        ],
    }


def processes_document(seen: AppliedPauses) -> dict[str, Any]:
    """Return which processes obey as a JSON document."""
    return {
        "controlOffset": seen.end,
        "members": seen.members,
        "processes": [
            {
                "role": name.role,
                "instance": name.instance,
                "applied": each.offset,
                "appliedMs": each.at_ms,
                "obeys": each.offset >= seen.end,
            }
            for name, each in seen.processes.items()
        ],
    }
