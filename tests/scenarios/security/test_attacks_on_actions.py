"""What forged records in the topics of a group's actions and jobs achieve is what docs/reference/attacks.md says."""

import json
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer

from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.redrive.actions import ChunkProgress, End, Outcome, outcome_record, progress_record
from kafka_redelivery.topology.redrive.job import JobOptions, JobSpec, SliceId, cancel_record, job_records
from kafka_redelivery.topology.redrive.offset_set import OffsetSet
from kafka_redelivery.topology.redrive.records import StoredRecord, stored_record
from kafka_redelivery.topology.wire.headers import RedriveMark
from tests.scenarios.cluster import Sent
from tests.scenarios.letters import now_ms
from tests.scenarios.redriving import dead_letter, died, dlq, dlq_json, sent, settings_of
from tests.scenarios.running import Group

pytestmark = pytest.mark.kafka

_LETTERS = 4


def _write(group: Group, topic: str, records: Iterable[StoredRecord]) -> None:
    group.cluster.produce(f"{group.name}.dlq.{topic}", [Sent(value, key, (), 0) for key, value in records])


def _spec(group: Group, name: str, letters: int = _LETTERS) -> list[StoredRecord]:
    """Make a job of the first letters of partition 0, as `redelivery dlq redrive` does before it sends them."""
    listed = {SliceId(group.dead_letters, 0): OffsetSet(range(letters))}
    options = JobOptions(group=group.name)
    spec = JobSpec(job=name, at_ms=1, by="me", seen=0, options=options, selection={}, slices=tuple(listed))
    return list(job_records(spec, listed))


def _outcomes(job: str, outcome: Outcome = Outcome.RECOVERED) -> list[StoredRecord]:
    return [outcome_record(RedriveMark(job, 0, offset, 1), outcome, now_ms()) for offset in range(_LETTERS)]


def _states(group: Group) -> dict[str, int]:
    """Return the states of all letters; the index and the topics must agree."""
    found = [dlq_json(group, "list"), dlq_json(group, "list", "--header", "dlqDeliveryFailureCause=")]
    assert found[1]["letters"] == 0  # this selection reads the topics
    kinds = dlq_json(group, "summary", "--by", "state")["kinds"]
    states = {str(kind["state"]): int(kind["letters"]) for kind in kinds}
    exported = [json.loads(line)["state"] for line in dlq(group, "export").out.splitlines()]
    assert states == {state: exported.count(state) for state in set(exported)}
    return states


def _job(group: Group, name: str) -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = (each for each in dlq_json(group, "jobs")["jobs"] if each["job"] == name)
    return found


def _prepare(group: Group) -> None:
    group.prepare()
    dead_letter(group, range(0, 2 * _LETTERS, 2))  # all in partition 0


@pytest.mark.parametrize("outcome", Outcome)
def test_an_outcome_of_a_letter_that_was_not_sent(group: Group, outcome: Outcome) -> None:
    """It does not count, before its job has sent the letter, and without a job: nothing is done, nothing is purged."""
    _prepare(group)
    _write(group, "jobs", _spec(group, "open"))
    _write(group, "actions", [*_outcomes("open", outcome), *_outcomes("none", outcome)])
    assert _states(group) == {"in_job": _LETTERS}
    open_job = _job(group, "open")
    assert (open_job["recovered"], open_job["deadAgain"], open_job["discarded"], open_job["expired"]) == (0, 0, 0, 0)
    assert dlq_json(group, "purge", "--dry-run")["removed"] == 0


def test_progress_that_does_not_fit_the_job(group: Group) -> None:
    """The letters are taken for sent, and stay; the job stops with an error, and can be cancelled."""
    _prepare(group)
    _write(group, "jobs", _spec(group, "open"))
    _write(group, "actions", [progress_record("open", 0, ChunkProgress(through=1), now_ms()), *_outcomes("open")])
    assert _states(group) == {"sent": 2, "in_job": 2}
    assert _job(group, "open")["recovered"] == 0
    assert dlq_json(group, "purge", "--dry-run")["removed"] == 0
    resumed = dlq(group, "resume", "open")
    assert resumed.code == exit_codes.FAILED
    assert "another program or person has written there" in resumed.err
    assert not sent(group)
    assert dlq_json(group, "cancel", "open", "--yes")["contradictory"] == 2
    assert _states(group) == {"sent": 2, "waiting": 2}
    assert dlq_json(group, "redrive", "--again", "--yes")["sent"] == _LETTERS


def test_progress_that_says_the_job_is_done(group: Group) -> None:
    """A resumed job sends nothing, and fails: it is not known what became of its letters."""
    _prepare(group)
    _write(group, "jobs", _spec(group, "open"))
    _write(group, "actions", [progress_record("open", 0, ChunkProgress(through=2**40, end=End.DONE), now_ms())])
    assert _states(group) == {"sent": _LETTERS}
    assert dlq_json(group, "resume", "open", code=exit_codes.FAILED)["contradictory"] == _LETTERS
    assert "may have been sent or not" in dlq(group, "resume", "open").out


def test_progress_that_fits(group: Group) -> None:
    """What the page warns of: the letters count as sent and recovered, and a purge removes them."""
    _prepare(group)
    _write(group, "jobs", _spec(group, "open"))
    done = progress_record("open", 0, ChunkProgress(through=_LETTERS - 1, sent=_LETTERS, end=End.DONE), now_ms())
    _write(group, "actions", [done, *_outcomes("open")])
    assert _states(group) == {"recovered": _LETTERS}
    assert not sent(group)
    assert dlq_json(group, "purge", "--dry-run")["removed"] == _LETTERS


def test_an_outcome_of_a_letter_that_was_sent(group: Group) -> None:
    """Its state changes; it is not sent again without --again."""
    _prepare(group)
    job = dlq_json(group, "redrive", "--yes")["job"]
    assert _states(group) == {"sent": _LETTERS}
    _write(group, "actions", _outcomes(job, Outcome.EXPIRED))
    assert _states(group) == {"expired": _LETTERS}
    assert dlq_json(group, "redrive", "--dry-run")["letters"] == 0


def test_more_records_of_an_existing_job(group: Group) -> None:
    """Its specification stays; letters that are added to it are known, in the index, too, and change no other one."""
    _prepare(group)
    (specification, listed) = _spec(group, "open", letters=2)
    _write(group, "jobs", [specification, listed])
    assert _states(group) == {"in_job": 2, "waiting": 2}
    forged = json.loads(specification.value)
    forged["options"]["to"] = group.source
    more = stored_record("open", "letters", slice=0, offsets=next(OffsetSet([3]).parts()))
    _write(group, "jobs", [StoredRecord(b"open", json.dumps(forged).encode()), more])
    assert _states(group) == {"in_job": 3, "waiting": 1}
    assert _job(group, "open")["options"]["to"] is None
    assert dlq_json(group, "resume", "open")["sent"] == 3
    group.cluster.wait_for_markers(group.ready)
    assert sent(group) == {0: 1, 2: 1, 6: 1}


def test_a_cancellation(group: Group) -> None:
    """The job ends when it is resumed; its letters are free."""
    _prepare(group)
    _write(group, "jobs", [*_spec(group, "open"), cancel_record("open", 1, "nobody")])
    assert _job(group, "open")["state"] == "cancelling"
    assert dlq_json(group, "resume", "open", code=exit_codes.FAILED)["state"] == "cancelled"
    assert _states(group) == {"waiting": _LETTERS}


def test_a_mark_that_says_how_often_a_letter_was_sent(group: Group) -> None:
    """Its letter goes to the parking topic instead of the handler; the topic is read by no command."""
    group.prepare()
    letter = died(group, 0)
    headers = [*letter.headers, ("redrive", b"x/0@0/99")]
    group.cluster.produce(group.dead_letters, [replace(letter, headers=headers)])
    assert dlq_json(group, "redrive", "--yes")["parked"] == 1
    parked = f"{group.name}.dlq.parked"
    group.cluster.produce(parked, [Sent(b"forged", b"k", (), 0)])
    assert _states(group) == {"parked": 1}
    assert len(group.cluster.read(parked)) == 2


@pytest.mark.parametrize("topic", ["actions", "jobs"])
def test_records_that_are_deleted_by_hand(group: Group, topic: str) -> None:
    """The index forgets them, too: it says what the topics say."""
    _prepare(group)
    name = f"{group.name}.dlq.{topic}"
    job = dlq_json(group, "redrive", "--id", f"{group.dead_letters}-0@0", "--yes")["job"]
    _write(group, "actions", _outcomes(job))
    assert _states(group) == {"recovered": 1, "waiting": 3}
    for (_, partition), end in group.cluster.ends(name).items():
        group.cluster.delete_before(name, partition, end)
    assert _states(group) == ({"waiting": 4} if topic == "jobs" else {"in_job": 1, "waiting": 3})
    dlq_json(group, "discard", "--id", f"{group.dead_letters}-0@3", "--yes")
    assert _states(group)["discarded"] == 1


def test_a_job_that_is_being_written(group: Group) -> None:
    """Who reads the topic in the middle of a job waits for all of it, so that no letter gets a second job."""
    group.prepare()
    group.cluster.produce(group.dead_letters, [died(group, 2 * n) for n in range(2)])
    letters = OffsetSet(range(2))
    slices = {SliceId(group.dead_letters, 0): letters}
    spec = JobSpec(
        job="late", at_ms=1, by="me", seen=0, options=JobOptions(group=group.name), selection={}, slices=tuple(slices)
    )
    first, last = job_records(spec, slices)
    topic = f"{group.name}.dlq.jobs"
    producer = Producer({"bootstrap.servers": group.cluster.servers, "transactional.id": f"{topic}.late"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, first.value, first.key)
    producer.flush()
    with ThreadPoolExecutor() as threads:
        reading = threads.submit(Ledger, settings_of(group))
        time.sleep(2)  # it has asked for the end by now, and waits for the transaction
        assert not reading.done()
        producer.produce(topic, last.value, last.key)
        producer.commit_transaction(30)
        ledger = reading.result(60)
    assert list(ledger.jobs.jobs["late"].owned[0]) == [0, 1]
