"""The records of the journal: the outcome of each source offset, written in the transaction that caused it.

A write produces one record per source partition, and a second one for redelivered records. Its key is
``topic-partition``. Its value is a JSON object:

- ``v`` (1), ``group``, ``topic``, ``partition``;
- ``mark``, the :mod:`mark <kafka_redelivery.topology.wire.topic_mark>` of the source topic, if its records were read
  from the source. Redelivered records have only the name of their source in their headers, and may come from an older
  topic of that name, so their entries have no mark. Neither do entries of versions before this one;
- for each outcome of :data:`OUTCOMES`, a list of inclusive ``[first, last]`` ranges of *source* offsets;
- ``lateness_ms``, the milliseconds between due time and handler call of each redelivery.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from kafka_redelivery.topology.wire.topic_mark import is_other_topic

VERSION = 1
OUTCOMES = ("acked", "recovered", "retried", "dead_lettered", "discarded")


def journalled_outcome(value: bytes | None, offset: int) -> str | None:
    """Return the outcome that a record gives a source offset; ``None`` if it gives none."""
    return _read(value, offset)[0]


def last_outcome(values: Iterable[bytes | None], offset: int, mark: str) -> str | None:
    """Return the last outcome of an offset of the source that exists now; ``None`` if there is none.

    If the source was deleted and created again, entries of the older topic do not count. Entries without a mark then
    count only after one of the present topic about this offset, because a record is redelivered only after it was read
    from its source.

    Args:
        values: the records about one source partition, in their order.
        offset: the source offset.
        mark: the mark of the present source topic; empty if it is unknown.
    """
    proven = unproven = None
    created_again = False
    for value in values:
        outcome, its_mark = _read(value, offset)
        if is_other_topic(its_mark, mark):
            created_again = True
        elif outcome is not None and (proven is not None or (its_mark and its_mark == mark)):
            proven = outcome
        elif outcome is not None:
            unproven = outcome
    return proven if proven is not None or created_again else unproven


def _read(value: bytes | None, offset: int) -> tuple[str | None, str]:
    """Return the outcome that a record gives an offset, and the mark of the source topic that it names."""
    mark = ""
    try:
        entry = json.loads(value or b"{}")
        mark = str(entry.get("mark") or "")
        for outcome in OUTCOMES:
            if any(first <= offset <= last for first, last in entry.get(outcome, ())):
                return outcome, mark
    except (ValueError, TypeError, AttributeError, RecursionError):  # another program wrote it
        pass
    return None, mark
