"""The records of the journal: the outcome of each source offset, written in the transaction that caused it.

A write produces one record per source partition. Its key is ``topic-partition``. Its value is a JSON object:

- ``v`` (1), ``group``, ``topic``, ``partition``;
- for each outcome of :data:`OUTCOMES`, a list of inclusive ``[first, last]`` ranges of *source* offsets;
- ``lateness_ms``, the milliseconds between due time and handler call of each redelivery.
"""

from __future__ import annotations

import json

VERSION = 1
OUTCOMES = ("acked", "recovered", "retried", "dead_lettered", "discarded")


def journalled_outcome(value: bytes | None, offset: int) -> str | None:
    """Return the outcome that a record gives a source offset; ``None`` if it gives none."""
    try:
        entry = json.loads(value or b"{}")
        for outcome in OUTCOMES:
            if any(first <= offset <= last for first, last in entry.get(outcome, ())):
                return outcome
    except (ValueError, TypeError, AttributeError, RecursionError):  # another program wrote it
        pass
    return None
