"""The journal: what became of which origin offsets, one record for each origin partition."""

import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from consumers.journal import OUTCOMES, Journal, ranges
from consumers.routes import Waiting
from topology.naming import Naming
from topology.tiers import TierSet
from transport.protocols import Copy


def journal(partitions: int = 4) -> Journal:
    """The journal of the group ``billing``."""
    waiting = Waiting(Naming(group="billing"), TierSet((1000,), mixed=False), {"billing.journal": partitions})
    return Journal("billing", "billing.journal", waiting)


def read(copies: list[Copy]) -> dict[str, dict[str, Any]]:
    """The records by their key."""
    return {(copy.key or b"").decode(): json.loads(copy.value or b"") for copy in copies}


def test_a_record_for_each_origin_partition() -> None:
    """Keyed by it, and complete: no other record has to be read to understand it."""
    notes = journal()
    notes.note("orders", 1, "acked", [3, 4, 5])
    notes.note("orders", 1, "retried", [6])
    notes.note("orders", 2, "acked", [9])
    assert read(notes.copies()) == {
        "orders-1": {
            "v": 1,
            "group": "billing",
            "topic": "orders",
            "partition": 1,
            "acked": [[3, 5]],
            "retried": [[6, 6]],
        },
        "orders-2": {"v": 1, "group": "billing", "topic": "orders", "partition": 2, "acked": [[9, 9]]},
    }


def test_notes_of_one_outcome_add_up() -> None:
    """Whatever units they came from, and in whatever order."""
    notes = journal()
    for offsets in ([7], [5], [6], [1]):
        notes.note("orders", 0, "acked", offsets)
    assert read(notes.copies())["orders-0"]["acked"] == [[1, 1], [5, 7]]


def test_its_partition_is_the_origins_modulo_its_own_count() -> None:
    """So all that is said of an origin partition is in one place, in order."""
    notes = journal(partitions=4)
    for partition in (1, 5, 6):
        notes.note("orders", partition, "acked", [0])
    assert [(copy.topic, copy.partition) for copy in notes.copies()] == [
        ("billing.journal", 1),
        ("billing.journal", 1),
        ("billing.journal", 2),
    ]


def test_lateness_goes_with_its_origin() -> None:
    """As many numbers as redeliveries; early ones are negative."""
    notes = journal()
    notes.note("orders", 0, "recovered", [1, 2])
    notes.note("orders", 1, "recovered", [1])
    notes.late("orders", 0, 12)
    notes.late("orders", 0, -3)
    found = read(notes.copies())
    assert found["orders-0"]["lateness_ms"] == [12, -3]
    assert "lateness_ms" not in found["orders-1"]


def test_nothing_to_say_is_no_record() -> None:
    """An empty write stays empty."""
    assert journal().copies() == []


def test_the_outcomes_are_the_documented_ones() -> None:
    """Readers rely on the names."""
    assert OUTCOMES == ("acked", "recovered", "retried", "dead_lettered", "discarded")


@given(st.sets(st.integers(0, 40)))
def test_ranges_hold_each_offset_once(offsets: set[int]) -> None:
    """Ascending, inclusive, and no two that touch: nothing lost, nothing added."""
    found = ranges(offsets)
    assert [offset for first, last in found for offset in range(first, last + 1)] == sorted(offsets)
    assert all(left[1] + 1 < right[0] for left, right in pairwise(found))
