"""A job over letters of another system recognises them as its author did, whichever command goes on with it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from kafka_redelivery.cli.views.dlq import print_jobs
from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.copies import copies
from kafka_redelivery.dead_letters.foreign.systems import ANY, Recognition
from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.dead_letters.jobs import OpenJob, _Run, job_document
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.reading import no_progress
from kafka_redelivery.dead_letters.source import LetterSource, OtherSystem, noting_systems
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.redrive.actions import ActionLog
from kafka_redelivery.topology.redrive.job import Job, JobLog, JobOptions, JobSpec, SliceId, job_records
from kafka_redelivery.topology.redrive.offset_set import OffsetSet
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.topology.wire.headers import HeaderList, RedriveMark
from tests.unit.consumers.records import NOW, Fetched

TOPICS = {"failed": 1, "orders": 3, "unrelated": 3}
MAPPED = Recognition((("topic", "x-source"), ("reason", "x-why")))
OURS = load_settings("group: billing\nkafka: {bootstrap.servers: 'localhost:1'}\nsources: [{topic: orders}]\n")


def stored(
    settings: LetterSource, *, discard: bool = False, again: bool = False, version: int | None = None
) -> tuple[Job, set[int]]:
    """Return a job as the topic of the jobs gives it back, and the versions of its records."""
    options = noting_systems(settings, JobOptions(group=settings.group, discard=discard, again=again))
    each = SliceId("failed", 0)
    spec = JobSpec(job="first", at_ms=NOW, by="me", seen=0, options=options, selection={}, slices=(each,))
    log, versions = JobLog(), set()
    for offset, (key, value) in enumerate(job_records(spec, {each: OffsetSet([0])})):
        record: dict[str, Any] = json.loads(value)
        versions.add(record["version"])
        if version is not None:
            record["version"] = version
            for name in {"mapping", "system"} & record.get("options", {}).keys():
                del record["options"][name]
        log.add(offset, key, json.dumps(record).encode())
    log.settle()
    return log.jobs["first"], versions


def other(recognition: Recognition = ANY) -> OtherSystem:
    """Return the settings of a command."""
    return OtherSystem("failed", {}, recognition)


def sent(settings: OtherSystem, job: Job, headers: HeaderList) -> tuple[str, list[str]]:
    """Return the topic that a letter is sent to, and the names of its headers."""
    letter = Fetched("failed", 0, 0, b"key", b"value", headers)
    made, _ = copies(settings, "failed", job.spec, TOPICS).record(letter, headers, RedriveMark("first", 0, 0, 1), NOW)
    return made.topic, [name for name, _ in made.headers or []]


HEADERS: HeaderList = [
    ("x-source", b"orders"),
    ("x-why", b"late"),
    ("kafka_dlt-original-topic", b"unrelated"),
    ("user", b"1"),
]


@pytest.mark.parametrize("later", [ANY, MAPPED, Recognition(MAPPED.mapping[::-1])])
def test_a_mapping_is_kept(later: Recognition) -> None:
    """Without it the rest of the letters would be taken for those of Spring Kafka, and go where these headers say."""
    job, versions = stored(other(MAPPED))
    assert versions == {4}
    assert sent(other(later), job, HEADERS) == ("orders", ["kafka_dlt-original-topic", "user", "redrive"])


def test_a_system_is_kept() -> None:
    """Of letters that two systems could have written."""
    job, _ = stored(other(Recognition(system="spring")))
    claimed = [("dead-letter-topic", b"orders"), ("dead-letter-exception-class-name", b"E"), *HEADERS[2:]]
    assert sent(other(), job, claimed)[0] == "unrelated"
    with pytest.raises(RedriveError, match="claimed"):
        sent(other(), stored(other(Recognition(system="")))[0], claimed)


@pytest.mark.parametrize(
    ("said", "later", "created"),
    [
        (MAPPED, Recognition((("topic", "x-why"),)), "--map topic=x-source --map reason=x-why"),
        (MAPPED, Recognition(system="spring"), "--map topic=x-source --map reason=x-why"),
        (Recognition(system="spring"), MAPPED, "--system spring"),
        (ANY, MAPPED, "neither --map nor --system"),
    ],
)
def test_another_recognition_is_refused(said: Recognition, later: Recognition, created: str) -> None:
    """The error says what the job was created with, and how to go on."""
    job, _ = stored(other(said))
    with pytest.raises(RedriveError, match=f"job first was created with {created}, .* leave --map and --system out"):
        copies(other(later), "failed", job.spec, TOPICS)


def test_a_job_that_does_not_say_it() -> None:
    """One of an earlier version is sent as the command says. Jobs of our letters, or without sending, are as before."""
    job, _ = stored(other(MAPPED), version=3)
    assert sent(other(MAPPED), job, HEADERS)[0] == "orders"
    assert sent(other(), job, HEADERS)[0] == "unrelated"
    assert stored(other(MAPPED), discard=True)[1] == {1}
    assert stored(OURS)[1] == {1}


def test_how_often_a_letter_was_sent_is_asked_of_an_index_of_that_recognition(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of another one would take its place, and be read anew by the next command of the author."""
    opened = []

    @contextmanager
    def refreshed(settings: LetterSource, *_: object, **__: object) -> Iterator[SimpleNamespace]:
        opened.append(settings)
        yield SimpleNamespace(sends=lambda *_: {})

    monkeypatch.setattr(Index, "refreshed", refreshed)
    job, _ = stored(other(MAPPED), again=True)
    ledger = SimpleNamespace(jobs=SimpleNamespace(jobs={"first": job}), group="failed")
    of_command = cast("OpenJob", SimpleNamespace(settings=other(), ledger=ledger, id="first"))
    assert _Run(of_command, Event(), no_progress)._sends(0) == {}
    assert opened == [other(MAPPED)]


def test_it_is_shown() -> None:
    """In the list of the jobs, where one of them says it."""
    jobs = {name: stored(other(said))[0] for name, said in (("first", MAPPED), ("second", ANY))}
    ledger = cast("Ledger", SimpleNamespace(actions=ActionLog(), topics=TopicIds()))
    documents = [job_document(ledger, job) for job in jobs.values()]
    assert [(each["options"]["map"], each["options"]["system"]) for each in documents] == [
        ({"topic": "x-source", "reason": "x-why"}, None),
        (None, None),
    ]
    printed = StringIO()
    print_jobs(Console(file=printed, width=300), documents)
    assert "recognised by" in printed.getvalue()
    assert "--map topic=x-source --map reason=x-why" in printed.getvalue()
    printed = StringIO()
    print_jobs(Console(file=printed, width=300), documents[1:])
    assert "recognised by" not in printed.getvalue()
