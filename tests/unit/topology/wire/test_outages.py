"""The records of outages in the control topic."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.wire.outages import (
    OutageNote,
    OutageState,
    ProbeLease,
    outage_record,
    probe_record,
    read_lease,
    read_outage,
)
from kafka_redelivery.topology.wire.pauses import Pauses

_MS = st.integers(0, 4_000_000_000_000)
_NOTES = st.builds(
    OutageNote,
    st.text(),
    st.sampled_from(OutageState),
    st.text(),
    _MS,
    st.none() | _MS,
    operator=st.just(value=False),
    offset=st.just(7),
)


@given(_NOTES)
def test_a_note_is_read_as_it_was_written(note: OutageNote) -> None:
    """The offset is that of the record."""
    record = outage_record("bank", note, 5)

    assert record.key == b"outage/bank"
    assert read_outage(record.value, 7) == note
    assert Pauses().with_record(*record, 7).outages == {"bank": note}


def test_an_opening_hides_no_closing_before_it() -> None:
    """A worker that looks after both have been written still learns that another one has found it back."""
    closed = OutageNote("a", OutageState.CLOSED, "w1", 1000, None, offset=7)
    opened = OutageNote("b", OutageState.OPEN, "w2", 2000, 3000, offset=8)
    known = Pauses().with_record(*outage_record("bank", closed, 5), 7)

    known = known.with_record(*outage_record("bank", opened, 6), 8)

    assert known.outages == {"bank": opened}
    assert known.closings == {"bank": closed}


@given(_NOTES)
def test_no_worker_replaces_what_an_operator_has_decided(note: OutageNote) -> None:
    """It has a key of its own, and processes note that they obey it as they do with a pause."""
    decided = note._replace(operator=True)
    record = outage_record("bank", decided, 5)
    known = Pauses().with_record(*record, 7).with_record(*outage_record("bank", note, 6), 8)

    assert record.key == b"outage/bank/operator"
    assert known.decided == {"bank": decided}
    assert known.outages == {"bank": note._replace(offset=8)}
    assert known.end == 8


def test_a_closing_by_an_operator_ends_the_openings_before_it() -> None:
    """One that a worker has written since holds."""
    closed = OutageNote("a", OutageState.CLOSED, "ann", 1000, None, operator=True, offset=7)
    opened = OutageNote("a", OutageState.OPEN, "w1", 1000, None)

    assert [opened._replace(offset=offset).is_open(1500, closed) for offset in (6, 8)] == [False, True]


def test_a_lease_is_read_as_it_was_written() -> None:
    """The newest counts."""
    pauses = Pauses().with_record(*probe_record("bank", ProbeLease("w1", 9), 5), 1)
    pauses = pauses.with_record(*probe_record("bank", ProbeLease("w2", 19), 15), 2)

    assert pauses.probes == {"bank": ProbeLease("w2", 19)}


def test_an_opening_that_nobody_writes_again_is_over() -> None:
    """Its worker may have been killed. One of an operator holds until it is closed."""
    opened = OutageNote("a", OutageState.OPEN, "w1", 1000, 2000)

    assert [opened.is_open(now_ms) for now_ms in (1999, 2000)] == [True, False]
    assert opened._replace(until_ms=None).is_open(10**12)
    assert not opened._replace(state=OutageState.CLOSED).is_open(1500)


@pytest.mark.parametrize(
    "value", [None, b"", b"no JSON", b"[]", b"{}", json.dumps({"opening": "a", "state": "away"}).encode()]
)
def test_a_damaged_record_counts_as_withdrawn(value: bytes | None) -> None:
    """It keeps no process from starting."""
    known = Pauses().with_record(*outage_record("bank", OutageNote("a", OutageState.OPEN, "w1", 1, 2), 0), 0)
    pauses = known.with_record(b"outage/bank", value, 1).with_record(b"probe/bank", value, 2)

    assert read_outage(value, 0) is None
    assert read_lease(value) is None
    assert not pauses.readable().outages
    assert not pauses.probes
