"""Notes of the audit trail stand between the records of the jobs."""

import json

import pytest

from kafka_redelivery.topology.errors import RedriveRecordError
from kafka_redelivery.topology.redrive.job import JobLog, Note, cancel_record, note_record


def test_a_note_is_read_as_it_was_written() -> None:
    """It is about no job, so it changes none."""
    log, note = JobLog(), Note(at_ms=5, by="ann", what="pause", about="source orders", note="the bank is away")
    key, value = note_record("x", note)
    assert log.add(0, key, value)
    log.settle()
    assert log.notes == [note]
    assert not log.jobs


def test_a_version_that_knows_no_notes_leaves_them_out() -> None:
    """As this one leaves out a type of record that it does not know; the others count."""
    log = JobLog()
    assert log.add(0, b"x", json.dumps({"version": 1, "type": "another"}).encode())
    assert log.add(1, *cancel_record("y", 1, "ann"))
    log.settle()
    assert (log.notes, log.jobs) == ([], {})


@pytest.mark.parametrize("fields", [{}, {"atMs": -1}, {"atMs": "soon"}])
def test_a_damaged_note_is_named(fields: dict[str, object]) -> None:
    """It is no reason to leave out anything else."""
    log = JobLog()
    with pytest.raises(RedriveRecordError):
        log.add(0, b"note-x", json.dumps({"version": 1, "type": "note", **fields}).encode())
    assert log.notes == []
