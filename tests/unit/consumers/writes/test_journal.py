"""The journal has one record per origin partition, with the outcomes of its offsets."""

import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.consumers.routes import RetryTopics
from kafka_redelivery.consumers.writes.journal import Journal, ranges
from kafka_redelivery.topology.topics.naming import Naming
from kafka_redelivery.topology.topics.tiers import TierSet
from kafka_redelivery.topology.wire.journal import OUTCOMES
from kafka_redelivery.transport.protocols import ProducerRecord


def journal(partitions: int = 4) -> Journal:
    """The journal of the group ``billing``."""
    retry_topics = RetryTopics(Naming(group="billing"), TierSet((1000,), mixed=False), {"billing.journal": partitions})
    return Journal("billing", "billing.journal", retry_topics)


def read(records: list[ProducerRecord]) -> dict[str, dict[str, Any]]:
    """The values of the records by key."""
    return {(each.key or b"").decode(): json.loads(each.value or b"") for each in records}


def test_a_record_for_each_origin_partition() -> None:
    """Its key is the origin partition, and its value is complete without any other record."""
    notes = journal()
    notes.note("orders", 1, "acked", [3, 4, 5])
    notes.note("orders", 1, "retried", [6])
    notes.note("orders", 2, "acked", [9])
    assert read(notes.records()) == {
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


def test_offsets_of_one_outcome_are_merged() -> None:
    """They may come from several work items and in any order."""
    notes = journal()
    for offsets in ([7], [5], [6], [1]):
        notes.note("orders", 0, "acked", offsets)
    assert read(notes.records())["orders-0"]["acked"] == [[1, 1], [5, 7]]


def test_the_partition_is_that_of_the_origin_modulo_the_count() -> None:
    """All entries of an origin partition are therefore in one partition, in order."""
    notes = journal(partitions=4)
    for partition in (1, 5, 6):
        notes.note("orders", partition, "acked", [0])
    assert [(each.topic, each.partition) for each in notes.records()] == [
        ("billing.journal", 1),
        ("billing.journal", 1),
        ("billing.journal", 2),
    ]


def test_lateness_goes_with_its_origin() -> None:
    """One number per redelivery; a negative one was early."""
    notes = journal()
    notes.note("orders", 0, "recovered", [1, 2])
    notes.note("orders", 1, "recovered", [1])
    notes.note_lateness("orders", 0, 12)
    notes.note_lateness("orders", 0, -3)
    found = read(notes.records())
    assert found["orders-0"]["lateness_ms"] == [12, -3]
    assert "lateness_ms" not in found["orders-1"]


def test_nothing_to_say_is_no_record() -> None:
    """An empty write stays empty."""
    assert journal().records() == []


def test_the_outcomes_are_the_documented_ones() -> None:
    """Readers rely on the names."""
    assert OUTCOMES == ("acked", "recovered", "retried", "dead_lettered", "discarded")


@given(st.sets(st.integers(0, 40)))
def test_ranges_hold_each_offset_once(offsets: set[int]) -> None:
    """Ascending, inclusive, and no two that touch: nothing lost, nothing added."""
    found = ranges(offsets)
    assert [offset for first, last in found for offset in range(first, last + 1)] == sorted(offsets)
    assert all(left[1] + 1 < right[0] for left, right in pairwise(found))


def test_redelivered_records_have_an_entry_of_their_own() -> None:
    """It names no topic, because they may come from an older one of that name."""
    notes = journal()
    notes.note("orders", 0, "acked", [3], "AAAA11111111")
    notes.note("orders", 0, "recovered", [1])
    notes.note_lateness("orders", 0, 12)
    source, redelivered = (json.loads(each.value or b"") for each in notes.records())
    assert (source["mark"], source["acked"]) == ("AAAA11111111", [[3, 3]])
    assert (redelivered.get("mark"), redelivered["recovered"], redelivered["lateness_ms"]) == (None, [[1, 1]], [12])
    assert "lateness_ms" not in source
