"""The ledger sums up the journal."""

from __future__ import annotations

import json

from examples.flights.ledger import Ledger
from tests.unit.consumers.records import Fetched


def _entry(partition: int, **lines: list[object]) -> Fetched:
    value = {"v": 1, "group": "g", "topic": "flights", "partition": partition} | lines
    return Fetched("g.journal", 0, 0, None, json.dumps(value).encode())


def test_ranges_become_records() -> None:
    """Each offset of a range is a record with an outcome; redeliveries and lateness are kept."""
    ledger = Ledger()
    ledger.take([_entry(0, acked=[[0, 2], [5, 5]], retried=[[3, 4]]), _entry(1, dead_lettered=[[0, 0]])])
    ledger.take([_entry(0, recovered=[[3, 3]], retried=[[4, 4]], lateness_ms=[7, 9])])
    assert ledger.ended == {
        (0, 0): "acked", (0, 1): "acked", (0, 2): "acked", (0, 5): "acked", (1, 0): "dead_lettered",
        (0, 3): "recovered",
    }  # fmt: skip
    assert ledger.counts == {"acked": 4, "dead_lettered": 1, "recovered": 1, "retried": 3}
    assert (ledger.retried, ledger.lateness_ms) == ({(0, 3): 1, (0, 4): 2}, [7, 9])
    assert not ledger.ended_again


def test_first_deliveries_are_counted_once() -> None:
    """A record that is retried and ends later has one first delivery."""
    ledger = Ledger()
    ledger.take([_entry(0, acked=[[0, 0]], retried=[[1, 2]])])
    assert ledger.delivered == 3
    ledger.take([_entry(0, retried=[[1, 1]], recovered=[[2, 2]], dead_lettered=[[3, 3]])])
    assert ledger.delivered == 4


def test_a_second_outcome_is_listed_separately() -> None:
    """A record that ends twice counts once, and its second outcome is listed."""
    ledger = Ledger()
    ledger.take([_entry(0, acked=[[0, 0]]), _entry(0, dead_lettered=[[0, 0]])])
    assert ledger.ended == {(0, 0): "acked"}
    assert ledger.ended_again == {(0, 0): ["dead_lettered"]}
    assert (ledger.counts, ledger.counts_again) == ({"acked": 1}, {"dead_lettered": 1})
