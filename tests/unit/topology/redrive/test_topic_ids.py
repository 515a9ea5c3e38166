"""What is remembered of a topic is not believed of another one with its name."""

import json

import pytest

from kafka_redelivery.dead_letters.letter import LetterState
from kafka_redelivery.topology.redrive.actions import (
    ActionLog,
    ChunkProgress,
    End,
    Outcome,
    outcome_record,
    progress_record,
)
from kafka_redelivery.topology.redrive.job import JobLog, JobOptions, JobSpec, SliceId, job_records
from kafka_redelivery.topology.redrive.offset_set import OffsetSet
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.topology.wire.headers import RedriveMark
from tests.unit.dead_letters.model import Standings

LETTERS, REFUNDS = SliceId("DLQ.orders", 0), SliceId("DLQ.refunds", 0)
BEFORE = TopicIds(cluster="c", ids={"DLQ.orders": "a", "DLQ.refunds": "r"})
NOW = TopicIds(cluster="c", ids={"DLQ.orders": "b", "DLQ.refunds": "r"})


def job(log: JobLog, name: str, at: int, topics: TopicIds, seen: int = 0) -> None:
    """Add a job with the letters 0, 1 and 2 of both topics."""
    letters = {LETTERS: OffsetSet(range(3)), REFUNDS: OffsetSet(range(3))}
    options = JobOptions(group="billing")
    spec = JobSpec(
        job=name, at_ms=1, by="me", seen=seen, options=options, selection={}, slices=tuple(letters), topics=topics
    )
    for offset, (key, value) in enumerate(job_records(spec, letters), at):
        log.add(offset, key, value)


def test_a_job_says_nothing_of_the_letters_of_another_topic() -> None:
    """The others of its letters stand where they stood; with ids that are not known nothing is left out."""
    log, actions = JobLog(), ActionLog()
    job(log, "first", 0, BEFORE)
    log.settle()
    for number in range(2):
        actions.add(*progress_record("first", number, ChunkProgress(through=2, sent=3, end=End.DONE), 1))
        actions.add(*outcome_record(RedriveMark("first", number, 0, 1), Outcome.DEAD_AGAIN, 1))

    def stand(now: TopicIds | None, topic: str = "DLQ.orders") -> LetterState:
        return Standings(log, actions, now).of(topic, 0, 0).state

    assert stand(NOW) is LetterState.WAITING
    assert stand(TopicIds(cluster="other", ids=BEFORE.ids)) is LetterState.WAITING
    assert stand(NOW, "DLQ.refunds") is LetterState.DEAD_AGAIN
    for now in (BEFORE, None, TopicIds(), TopicIds(cluster="c")):
        assert stand(now) is LetterState.DEAD_AGAIN, now
    assert Standings(log, actions, NOW).history("DLQ.orders", 0, 0) == []


def test_letters_of_another_topic_belong_to_no_earlier_job() -> None:
    """An author that had not seen the job before gets all letters of the new topic; of an unknown one as before."""
    log = JobLog()
    job(log, "first", 0, BEFORE)
    job(log, "second", 5, NOW)
    job(log, "third", 10, TopicIds())
    log.settle()
    owned = {each.id: [len(letters) for letters in each.owned] for each in log.jobs.values()}
    assert owned == {"first": [3, 3], "second": [3, 0], "third": [0, 0]}


def test_what_was_written_is_read() -> None:
    """Jobs with ids have a version of their own, so that an earlier program refuses them; others are as they were."""
    log = JobLog()
    job(log, "first", 0, BEFORE)
    job(log, "old", 5, TopicIds())
    assert (log.jobs["first"].spec.topics, log.jobs["old"].spec.topics) == (BEFORE, TopicIds())
    letters = {LETTERS: OffsetSet([1])}
    for topics, version in ((BEFORE, 3), (TopicIds(), 1)):
        options = JobOptions(group="billing")
        spec = JobSpec(
            job="x", at_ms=1, by="me", seen=0, options=options, selection={}, slices=(LETTERS,), topics=topics
        )
        assert {json.loads(value)["version"] for _, value in job_records(spec, letters)} == {version}
    assert TopicIds.read(BEFORE.text()) == BEFORE


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"cluster":"c"}', '{"cluster":"c","ids":[]}', "[" * 100_000])
def test_of_another_text_nothing_is_known(text: str) -> None:
    """A form of the console may have any."""
    assert TopicIds.read(text) == TopicIds()


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (NOW, "topic DLQ.orders was deleted and created again since the preview"),
        (TopicIds(cluster="c", ids={"DLQ.orders": "x", "DLQ.refunds": "y"}), "topics DLQ.orders, DLQ.refunds were "),
        (TopicIds(cluster="d", ids=BEFORE.ids), "since the preview the cluster is another one: its id was c, and is d"),
        (TopicIds(cluster="c", ids={"DLQ.refunds": "r"}), ""),
        (TopicIds(), ""),
        (BEFORE, ""),
    ],
)
def test_the_reason_is_named(now: TopicIds, expected: str) -> None:
    """A topic that is away, or whose id is not known, is not called another one."""
    found = BEFORE.difference(now, "the preview")
    assert found.startswith(expected)
    assert bool(found) == bool(expected)
