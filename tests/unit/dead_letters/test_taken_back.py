"""A process that replaces its producer takes its id back from its successor; no letter is sent twice.

The two are a run of a job and its resumption, or two imports. The second one runs while the first one is about to
initialize the new producer, which then fences the second one.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters import draining, importing, jobs
from kafka_redelivery.dead_letters.draining import Drain, Inbox
from kafka_redelivery.dead_letters.importing import Import
from kafka_redelivery.dead_letters.jobs import OpenJob, Pace
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.topology.redrive.actions import ActionLog, End
from kafka_redelivery.topology.redrive.exported import ExportedLetter
from kafka_redelivery.topology.redrive.job import SliceId
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.transport.activemq.broker_message import BrokerMessage, Server
from kafka_redelivery.transport.admin.write_rights import WriteRights
from kafka_redelivery.transport.client_config import Config
from kafka_redelivery.transport.clients import owned_producer
from kafka_redelivery.transport.clients.owned_producer import OwnedProducer
from kafka_redelivery.transport.protocols import Message, Partition
from tests.unit.consumers.records import NOW, Fetched
from tests.unit.dead_letters.test_listed_and_sent import READY, SETTINGS, letter
from tests.unit.topology.redrive.test_ownership import log_of

LETTERS: Final = "DLQ.orders"
ACTIONS: Final = "billing.dlq.actions"
LIMIT: Final = 30_000
"""Bytes of a batch that the topics take: of a value of the tests lz4 leaves all bytes, zstd half of them."""

COMPRESSED: Final = [10, 10, 50_000, 10]
SMALLER: Final = [20_000] * 10
"""Batches of 15 kB fit: the sixth half of those that the client makes by default."""

REFUSED: Final = [10, 100_000, 20_000, 20_000, 70_000, 10]

HAVE_NO_ROOM: Final = {1, 4}
"""Those of :data:`REFUSED`."""


class _Producer:
    """A transactional producer. Its answers come with a flush."""

    def __init__(self, kafka: "_Kafka", config: Config) -> None:
        self._kafka, self._config = kafka, config
        kafka.owners[str(config["transactional.id"])] = self
        self._records: list[tuple[Fetched, Callable[..., None]]] = []
        self._answered = self._failed = 0

    def begin_transaction(self) -> None:
        self._refuse_fenced()

    def produce(self, topic: str, value: bytes, key: bytes | None, number: int, report: Any, *others: Any) -> None:  # noqa: ANN401 - as the client's
        record = Fetched(topic, number, 0, key, value, others[-1])
        self._records.append((record, report))

    def poll(self, timeout_s: float) -> None: ...
    def purge(self) -> None: ...

    def flush(self, timeout_s: float) -> int:
        del timeout_s
        best, size = self._config.get("compression.type") == "zstd", int(self._config.get("batch.size", 1_000_000))
        most = int(self._config.get("batch.num.messages", 10_000))
        batches: list[list[tuple[Fetched, Callable[..., None]]]] = []
        for each in self._records[self._answered :]:
            if not batches or len(batches[-1]) == most or sum(len(of) for of, _ in [*batches[-1], each]) > size:
                batches.append([])
            batches[-1].append(each)
        for batch in batches:
            if sum(len(each) for each, _ in batch) // (2 if best else 1) > LIMIT:
                self._failed += len(batch)
                for _, report in batch:
                    report(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), None)
        self._answered = len(self._records)
        return 0

    def commit_transaction(self, timeout_s: float) -> None:
        self._refuse_fenced()
        self.flush(timeout_s)
        if self._failed:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "a batch", txn_requires_abort=True))
        self._kafka.committed += [each for each, _ in self._records]
        self.abort_transaction(timeout_s)

    def abort_transaction(self, timeout_s: float) -> None:
        del timeout_s
        self._refuse_fenced()
        self._records, self._answered, self._failed = [], 0, 0

    def _refuse_fenced(self) -> None:
        if self._kafka.owners[str(self._config["transactional.id"])] is not self:
            raise KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))


class _Kafka:
    """What is committed, and the producer that has each transactional id."""

    def __init__(self) -> None:
        self.committed: list[Fetched] = []
        self.owners: dict[str, _Producer] = {}
        self.replaced = 0
        self.meanwhile: dict[int, Callable[[], object]] = {}
        """What happens directly before the producer is replaced for the so-manieth time."""

    def read(self, topic: str, start: int = 0) -> list[Message]:
        """Return the records of the one partition of a topic."""
        found = [each for each in self.committed if each.source == topic]
        for offset, each in enumerate(found):
            each.place = offset
        return cast("list[Message]", found[start:])


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> _Kafka:
    """Return a Kafka in which the producers of this test write."""
    made, replace = _Kafka(), OwnedProducer.replace

    def replaced(self: OwnedProducer, **options: bool) -> None:
        made.replaced += 1
        made.meanwhile.get(made.replaced, lambda: None)()
        replace(self, **options)

    monkeypatch.setattr(OwnedProducer, "replace", replaced)
    monkeypatch.setattr(owned_producer, "take_over", lambda config, *_: _Producer(made, config))
    monkeypatch.setattr(WriteRights, "smallest_limit", lambda *_: None)
    for module in (importing, draining):
        monkeypatch.setattr(module, "ClusterAdmin", lambda *_: SimpleNamespace(partition_counts=lambda: {LETTERS: 1}))
        monkeypatch.setattr(module, "letter_topic_ids", lambda *_: TopicIds())
        ends = SimpleNamespace(calls=None, high_watermarks=lambda _: {Partition(LETTERS, 0): len(made.read(LETTERS))})
        monkeypatch.setattr(module, "PartitionOffsets", lambda *_, ends=ends: ends)
        monkeypatch.setattr(
            module, "read_between", lambda _, __, starts, ___: made.read(LETTERS, max(starts.values(), default=0))
        )
    return made


class _Ledger:
    group, jobs_topic, topics = "billing", "billing.dlq.jobs", TopicIds()
    partition_counts: Mapping[str, int] = {LETTERS: 1, READY: 2}

    def __init__(self, kafka: _Kafka, letters: int) -> None:
        self._kafka = kafka
        self.jobs = log_of([("first", 0, {SliceId(LETTERS, 0): set(range(letters))})])
        self.refresh()

    def refresh(self) -> None:
        self.actions = ActionLog()
        for each in self._kafka.read(ACTIONS):
            self.actions.add(each.key(), each.value())

    def actions_partition(self, number: int) -> Partition:
        return Partition(ACTIONS, number)

    def command(self, *names: str) -> str:
        return " ".join(names)


def _run(kafka: _Kafka, letters: int, *, chunks: int | None = None) -> _Ledger:
    """Run the job, until it has ended or written so many chunks; return what is known of it then."""
    ledger, stop, written = _Ledger(kafka, letters), Event(), Counter[str]()

    def progress(*_: int) -> None:
        written["chunks"] += 1
        if written["chunks"] == chunks:
            stop.set()

    with suppress(RedriveError):  # the other one has it, which the test looks at in the end
        OpenJob(SETTINGS, cast("Ledger", ledger), "first").run(stop, progress)
    return ledger


def _sent(kafka: _Kafka) -> Counter[int]:
    """Return how often each letter was sent."""
    marks = (dict(each.headers() or [])["redrive"] or b"" for each in kafka.read(READY))
    return Counter(int(mark.decode().partition("@")[2].partition("/")[0]) for mark in marks)


def _prepare(monkeypatch: pytest.MonkeyPatch, sizes: list[int]) -> None:
    """Have letters of these sizes, and chunks of some of them."""
    messages = [letter(offset, user=[]) for offset in range(len(sizes))]
    for message, size in zip(messages, sizes, strict=True):
        cast("Fetched", message).value_bytes = bytes(size)

    def read_between(_: object, __: str, starts: Any, ends: Any) -> Iterator[Message]:  # noqa: ANN401 - a mapping each
        return iter(messages[min(starts.values()) : max(ends.values())])

    monkeypatch.setattr(jobs, "read_between", read_between)
    monkeypatch.setattr(jobs, "CHUNK", max(2, len(sizes) // 2))
    monkeypatch.setattr(jobs, "_PAUSE_S", 0.0)


@pytest.mark.parametrize("sizes", [SMALLER, REFUSED], ids=["smaller", "refused"])
def test_a_chunk_that_is_repeated_counts_once_for_the_rate(
    kafka: _Kafka, monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    """Whatever makes it be repeated, such as a letter that is refused; otherwise the job would be slower."""
    _prepare(monkeypatch, sizes)
    paced: list[int] = []

    def wait(_: Pace, letters: int) -> bool:
        paced.append(letters)
        return True

    monkeypatch.setattr(Pace, "wait", wait)
    asked: list[int] = []

    def sends(_: object, number: int) -> dict[int, int]:
        asked.append(number)
        return {}

    monkeypatch.setattr(jobs._Run, "_sends", sends)
    _run(kafka, len(sizes))
    assert asked == [0], "what earlier jobs have sent is asked for once"
    assert len(paced) > 2, "nothing was repeated"
    assert sum(paced) == len(sizes)


@pytest.mark.parametrize("chunks", [None, 1], ids=["ends_it", "begins"])
@pytest.mark.parametrize("sizes", [COMPRESSED, SMALLER, REFUSED], ids=["compressed", "smaller", "refused"])
def test_a_job(kafka: _Kafka, monkeypatch: pytest.MonkeyPatch, sizes: list[int], chunks: int | None) -> None:
    """Whenever the other process has ended the job, or sent a chunk of it, each letter is sent or refused once."""
    _prepare(monkeypatch, sizes)
    refused = HAVE_NO_ROOM if sizes is REFUSED else set()
    at, taken_back = 0, True
    while taken_back:  # by the first one, at one replacement after the other
        kafka.__init__()  # type: ignore[misc] # empty again
        at += 1
        kafka.meanwhile[at] = lambda: _run(kafka, len(sizes), chunks=chunks)
        _run(kafka, len(sizes))
        taken_back = kafka.replaced >= at
        found = _run(kafka, len(sizes)).actions.slice("first", 0)
        assert _sent(kafka) == Counter(set(range(len(sizes))) - refused), at
        assert (found.end, set(found.refused), found.sent) == (End.DONE, refused, len(sizes) - len(refused)), at
    assert at > 3, "nothing was taken back"


@pytest.mark.parametrize("sizes", [COMPRESSED, SMALLER], ids=["compressed", "smaller"])
@pytest.mark.parametrize("kind", ["file", "queue"])
def test_an_import(kafka: _Kafka, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sizes: list[int], kind: str) -> None:
    """Whenever another import has begun and ended, each letter is in its topic once."""
    for module in (importing, draining):
        monkeypatch.setattr(module, "CHUNK", len(sizes) // 2)
        monkeypatch.setattr(module, "_PAUSE_S", 0.0)
    file = tmp_path / "letters.jsonl"
    exported = [
        ExportedLetter(f"{LETTERS}-0@{number}", NOW, None, bytes(size), letter(number, user=[]).headers() or [])
        for number, size in enumerate(sizes, 100)
    ]
    file.write_text("".join(f"{json.dumps(each.document(''))}\n" for each in exported), encoding="utf-8")

    def imported() -> None:
        with suppress(RedriveError):
            if kind == "file":
                run = Import(SETTINGS, "billing", file)
                run.preview(lambda *_: None)
                run.run(Event(), lambda *_: None)
            else:
                Drain(SETTINGS, None, "JMSXGroupID").run(_inbox(sizes), Event(), None, 0.0, lambda _: None)

    at, taken_back = 0, True
    while taken_back:
        kafka.__init__()  # type: ignore[misc] # empty again
        at += 1
        kafka.meanwhile[at] = imported
        imported()
        taken_back = kafka.replaced >= at
        imported()
        names = Counter(dict(each.headers() or [])["dlqImportedFrom"] for each in kafka.read(LETTERS))
        assert sorted(names.values()) == [1] * len(sizes), at
    assert at > 3, "nothing was taken back"


def _inbox(sizes: list[int]) -> Inbox:
    """Return a queue that delivers all its messages, as it does after the connection of another reader was lost."""
    messages = [
        BrokerMessage(
            {"message-id": f"ID:host-1:1:1:1:{number}", "original-destination": "/queue/orders", "timestamp": str(NOW)},
            bytes(size),
            server=Server.CLASSIC,
        )
        for number, size in enumerate(sizes)
    ]
    left = iter(messages)
    found = SimpleNamespace(
        receive=lambda _: next(left, None),
        acknowledge=lambda _: None,
        widen=lambda: False,
        stored=lambda: None,
        shadowed=lambda: 0,
    )
    return cast("Inbox", found)
