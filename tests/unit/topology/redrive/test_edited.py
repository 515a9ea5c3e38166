"""A job with an edited value: its records, and what a program makes of them that does not know it."""

import hashlib
import json
from dataclasses import replace

import pytest

from kafka_redelivery.topology.errors import RedriveRecordError
from kafka_redelivery.topology.redrive.job import (
    EDIT_PART_BYTES,
    Edited,
    JobLog,
    JobOptions,
    JobSpec,
    SliceId,
    edited_value,
    job_records,
)
from kafka_redelivery.topology.redrive.offset_set import OffsetSet
from kafka_redelivery.topology.redrive.records import StoredRecord

SLICE = SliceId("DLQ.orders", 0)


def edited(value: bytes) -> Edited:
    """What a job says about a value."""
    digest = hashlib.sha256(value).hexdigest()
    return Edited(bytes=len(value), sha256=digest, original_bytes=1, original_sha256="0")


def records(value: bytes | None) -> list[StoredRecord]:
    """The records of a job."""
    spec = JobSpec(
        job="0123456789",
        at_ms=1,
        by="ann@host",
        seen=0,
        options=JobOptions(group="billing"),
        selection={},
        slices=(SLICE,),
        edited=None if value is None else edited(value),
    )
    return list(job_records(spec, {SLICE: OffsetSet([17])}, value))


@pytest.mark.parametrize("size", [0, 1, EDIT_PART_BYTES, EDIT_PART_BYTES + 1, 3 * EDIT_PART_BYTES])
def test_a_value_of_any_size_comes_back(size: int) -> None:
    """In parts that fit into a record of Kafka's default size; the log keeps where they are, not what they are."""
    value, log = bytes(n % 251 for n in range(size)), JobLog()
    stored = records(value)
    for offset, (key, data) in enumerate(stored):
        assert len(data) < 1_000_000
        assert log.add(offset, key, data)
    log.settle()
    (job,) = log.jobs.values()
    assert job.spec.edited == edited(value)
    assert job.spec.kind == "edit"
    assert list(job.owned[0]) == [17]
    parts = [stored[offset].value for offset in job.edit_offsets]
    assert edited_value(edited(value), parts) == value
    assert len(parts) == max(1, -(-size // EDIT_PART_BYTES))


def test_what_is_damaged_is_refused() -> None:
    """A part that is missing, or of another value, or no part at all: then nothing is sent."""
    value = bytes(EDIT_PART_BYTES) + b"x"
    parts = [each.value for each in records(value)[2:]]
    for damaged in (parts[:1], parts[::-1], [*parts, parts[0]], [], [parts[0], b"{}"], [parts[0], None]):
        with pytest.raises(RedriveRecordError):
            edited_value(edited(value), damaged)
    with pytest.raises(RedriveRecordError):
        edited_value(replace(edited(value), sha256="0"), parts)


def test_a_program_without_edits_refuses_the_job() -> None:
    """It reads version 1 only; all records of the job have version 2. A job without an edit is as it was."""
    assert {json.loads(value)["version"] for _, value in records(b"x")} == {2}
    plain = records(None)
    assert {json.loads(value)["version"] for _, value in plain} == {1}
    assert not any("edited" in json.loads(value) for _, value in plain)
    key, value = records(b"x")[0]
    newer = json.dumps(json.loads(value) | {"version": 9}).encode()
    with pytest.raises(RedriveRecordError, match="version 9; this program reads 1, 2, 3 and 4"):
        JobLog().add(0, key, newer)
