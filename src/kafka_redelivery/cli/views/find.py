"""Where a record is, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kafka_redelivery.consumers.operations.find import Found, Search, State
from kafka_redelivery.topology.printable import printable_time

_TEXTS: Final = {
    State.SOURCE: "not finished in its source: it waits for a delivery, or is in a handler",
    State.TIER: "waits in a tier",
    State.READY: "ready: it waits for its redelivery, or is in a handler",
    State.DEAD_LETTER: "a dead letter",
    State.DONE: "done",
    State.FINISHED: "finished in its source, and in no tier, ready topic or dead-letter topic",
    State.UNKNOWN: "not found",
}


def lines(search: Search, wanted: str) -> Iterator[str]:
    """Yield a line for each place."""
    for each in search.found:
        yield f"{each.message_id or wanted}: {', '.join(_parts(each))}"


def search_document(search: Search) -> dict[str, Any]:
    """Return the same as a JSON document."""
    return {
        "found": [
            {
                "id": each.message_id or None,
                "state": str(each.state),
                "location": each.location or None,
                "deliveries": each.deliveries,
                "dueMs": each.due_ms,
                "cause": each.cause or None,
            }
            for each in search.found
        ],
        "unread": list(search.unread),
    }


def _parts(each: Found) -> Iterator[str]:
    yield _TEXTS[each.state]
    if each.location and each.location != each.message_id:
        yield f"at {each.location}"
    if each.due_ms is not None:
        yield f"due {printable_time(each.due_ms)}"
    if each.deliveries is not None:
        yield f"delivered {each.deliveries} times" if each.deliveries != 1 else "delivered once"
    if each.cause:
        yield each.cause
