"""To which job a letter belongs, and where it stands, follows from the two topics alone."""

import json
import tracemalloc
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.dead_letters.letter import LetterState
from kafka_redelivery.topology.errors import RedriveRecordError
from kafka_redelivery.topology.redrive.actions import (
    ActionLog,
    ChunkProgress,
    End,
    Outcome,
    outcome_record,
    progress_record,
)
from kafka_redelivery.topology.redrive.job import JobLog, JobOptions, JobSpec, SliceId, cancel_record, job_records
from kafka_redelivery.topology.redrive.offset_set import OffsetSet
from kafka_redelivery.topology.redrive.records import StoredRecord
from kafka_redelivery.topology.wire.headers import RedriveMark, parse_mark
from tests.unit.dead_letters.model import Standings

LETTERS = SliceId("DLQ.orders", 0)
OTHERS = SliceId("DLQ.orders", 1)


def log_of(jobs: Iterable[tuple[str, int, dict[SliceId, set[int]]]]) -> JobLog:
    """Write jobs, each with its name, what its author had seen, and its letters."""
    log = JobLog()
    for offset, (key, value) in enumerate(each for job in jobs for each in records_of(*job)):
        log.add(offset, key, value)
    log.settle()
    return log


def records_of(name: str, seen: int, letters: dict[SliceId, set[int]]) -> list[StoredRecord]:
    """Return the records of a job."""
    spec = JobSpec(
        job=name,
        at_ms=1,
        by="me",
        seen=seen,
        options=JobOptions(group="billing"),
        selection={},
        slices=tuple(sorted(letters)),
    )
    return list(job_records(spec, {each: OffsetSet(offsets) for each, offsets in letters.items()}))


@given(st.lists(st.sets(st.integers(0, 9), min_size=1), min_size=1, max_size=6), st.data())
def test_authors_that_do_not_know_each_other_share_without_overlap(wanted: list[set[int]], data: st.DataObject) -> None:
    """An author leaves out what he has seen. Whatever he has not seen, each letter belongs to exactly one job."""
    jobs: list[tuple[str, int, dict[SliceId, set[int]]]] = []
    positions: list[int] = []
    for number, letters in enumerate(wanted):
        known = data.draw(st.integers(0, number))
        seen = positions[known] if known < number else 2 * number
        taken = {offset for _, owned in owned_by(log_of(jobs[:known])).items() for offset in owned}
        positions.append(2 * number)  # a job with letters in one slice has two records
        jobs.append((f"j{number}", seen, {LETTERS: letters - taken or {99 + number}}))
    owned = owned_by(log_of(jobs))
    counts = Counter(offset for offsets in owned.values() for offset in offsets)
    assert set(counts.values()) == {1}
    assert set(counts) == {offset for _, _, letters in jobs for offset in letters[LETTERS]}


def owned_by(log: JobLog) -> dict[str, set[int]]:
    """Return the letters of the first slice that belong to each job."""
    return {job.id: set(job.owned[0]) for job in log.jobs.values()}


def test_the_first_job_that_lists_a_letter_has_it() -> None:
    """A later author that had not seen it gets the rest; one that had seen it may send it again."""
    log = log_of(
        [
            ("first", 0, {LETTERS: {1, 2, 3}, OTHERS: {1}}),
            ("second", 0, {LETTERS: {2, 3, 4}}),
            ("third", 5, {LETTERS: {3, 4}}),
        ]
    )
    assert owned_by(log) == {"first": {1, 2, 3}, "second": {4}, "third": {3, 4}}


def test_where_letters_stand() -> None:
    """From waiting over a job to an outcome; what a cancelled job has not sent waits again."""
    log = log_of([("first", 0, {LETTERS: set(range(10))})])
    actions = ActionLog()

    def stand(offset: int) -> LetterState:
        return Standings(log, actions).of("DLQ.orders", 0, offset).state

    assert (stand(0), stand(10)) == (LetterState.IN_JOB, LetterState.WAITING)
    chunk = ChunkProgress(through=6, sent=3, gone=(1,), parked=(2,), set_aside=(6,), refused={3: "too large"})
    for _ in range(2):  # reading a record twice changes nothing
        actions.add(*progress_record("first", 0, chunk, 7))
    for offset, outcome in ((0, Outcome.RECOVERED), (4, Outcome.DEAD_AGAIN)):
        actions.add(*outcome_record(RedriveMark("first", 0, offset, 1), outcome, 8))
    assert [stand(offset) for offset in range(8)] == [
        LetterState.RECOVERED,
        LetterState.GONE,
        LetterState.PARKED,
        LetterState.REFUSED,
        LetterState.DEAD_AGAIN,
        LetterState.SENT,
        LetterState.DISCARDED,
        LetterState.IN_JOB,
    ]
    assert actions.slice("first", 0).sent == 3
    log.add(9, *cancel_record("first", 9, "me"))
    assert stand(7) is LetterState.IN_JOB, "its process may still send it"
    actions.add(*progress_record("first", 0, ChunkProgress(through=6, end=End.CANCELLED), 9))
    assert (stand(7), stand(5)) == (LetterState.WAITING, LetterState.SENT)
    history = Standings(log, actions).history("DLQ.orders", 0, 0)
    assert [(step.job, step.state, step.sends) for step in history] == [("first", LetterState.RECOVERED, 1)]


def test_memory_is_some_bytes_per_letter() -> None:
    """Eight, and a part of the log while it is read; sets and lists of numbers would take a hundred."""
    number = 200_000
    spec = JobSpec(job="j", at_ms=1, by="me", seen=0, options=JobOptions(group="g"), selection={}, slices=(LETTERS,))
    records = list(job_records(spec, {LETTERS: OffsetSet(range(0, 3 * number, 3))}))
    log = JobLog()
    tracemalloc.start()
    try:
        for offset, (key, value) in enumerate(records):
            log.add(offset, key, value)
        log.settle()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(log.jobs["j"].owned[0]) == number
    assert peak < 45 * number


def test_who_may_be_sent() -> None:
    """A letter in a job never, one that was sent or not found only with --again."""
    log, actions = log_of([("first", 0, {LETTERS: {1, 2, 3}})]), ActionLog()
    actions.add(*progress_record("first", 0, ChunkProgress(through=2, sent=1, gone=(2,)), 7))
    standings = Standings(log, actions)
    found = [standings.of("DLQ.orders", 0, offset) for offset in range(4)]
    assert [each.may_be_sent(again=False) for each in found] == [True, False, False, False]
    assert [each.may_be_sent(again=True) for each in found] == [True, True, True, False]


def test_a_refused_letter_is_free_if_it_was_never_sent() -> None:
    """One that was sent before and refused later may have been handled: only --again sends it."""
    log = log_of([("first", 0, {LETTERS: {1}}), ("second", 1, {LETTERS: {1, 2}})])
    actions = ActionLog()
    actions.add(*progress_record("first", 0, ChunkProgress(through=1, sent=1, end=End.DONE), 7))
    actions.add(*progress_record("second", 0, ChunkProgress(through=2, refused={1: "no", 2: "no"}, end=End.DONE), 8))
    sent, never_sent = (Standings(log, actions).of("DLQ.orders", 0, offset) for offset in (1, 2))
    assert (sent.state, never_sent.state) == (LetterState.REFUSED, LetterState.REFUSED)
    assert not sent.may_be_sent(again=False)
    assert sent.may_be_sent(again=True)
    assert never_sent.may_be_sent(again=False)


@pytest.mark.parametrize("value", [None, b"", b"[]", b"{}", b"7", b"\xff", b"[" * 100_000])
def test_what_another_program_wrote(value: bytes | None) -> None:
    """It is left out, so that it does not end every command; each record of this project has a version."""
    log, actions = JobLog(), ActionLog()
    assert not log.add(0, b"job-1", value)
    assert not actions.add(b"job-1/0", value)
    log.settle()
    assert log.jobs == {}


@pytest.mark.parametrize(
    "value", [b'{"version":2,"type":"job"}', b'{"version":1}', b'{"version":null,"type":"cancel"}']
)
def test_what_another_version_wrote(value: bytes) -> None:
    """It is an error that names the record, never a job that is overlooked."""
    with pytest.raises(RedriveRecordError, match="job-1"):
        JobLog().add(0, b"job-1", value)
    with pytest.raises(RedriveRecordError, match="job-1"):
        ActionLog().add(b"job-1/0", value)


def test_records_that_cannot_be_read_change_nothing() -> None:
    """Neither letters without a job or of a slice that it has not, nor progress of which a field is missing."""
    log, actions = log_of([("first", 0, {LETTERS: {1}})]), ActionLog()
    assert log.add(5, b"lost", b'{"version":1,"type":"letters","slice":0,"offsets":""}')
    with pytest.raises(RedriveRecordError):
        log.add(6, b"first", b'{"version":1,"type":"letters","slice":1,"offsets":"eJwDAAAAAAE="}')
    with pytest.raises(RedriveRecordError):
        actions.add(b"first/0", b'{"version":1,"type":"progress","through":9,"sent":1}')
    log.settle()
    assert owned_by(log) == {"first": {1}}
    assert actions.slice("first", 0).through == -1


@pytest.mark.parametrize("text", ["", "a", "a/1@2", "a/1@2/3/4", "a/-1@2/3", "A/1@2/3", "a/1@x/3"])
def test_what_is_no_mark(text: str) -> None:
    """A header that another program has set does not count."""
    assert parse_mark(text) is None


def test_a_mark_is_read_as_it_is_written() -> None:
    """Job, slice, offset and number."""
    mark = RedriveMark("0123456789", 12, 34567, 2)
    assert parse_mark(str(mark)) == mark


def test_letters_of_a_job_that_come_later() -> None:
    """They are added, so who reads on knows the same letters as who reads all."""
    log = log_of([("first", 0, {LETTERS: {1, 4}})])
    more = json.dumps({"version": 1, "type": "letters", "slice": 0, "offsets": next(OffsetSet([2]).parts())})
    log.add(9, b"first", more.encode())
    log.settle()
    assert owned_by(log) == {"first": {1, 2, 4}}


def test_a_job_of_a_newer_version_owns_its_letters() -> None:
    """What this version can read of it counts, so that no other job sends them; the job itself has a problem."""
    log = log_of([])
    for offset, (key, value) in enumerate(records_of("newer", 0, {LETTERS: {1}})):
        with pytest.raises(RedriveRecordError, match="version 9"):
            log.add(offset, key, json.dumps({**json.loads(value), "version": 9}).encode())
    log.settle()
    assert owned_by(log) == {"newer": {1}}
    assert log.jobs["newer"].problem.startswith("version 9")
