"""A task's writes: whatever they end in, each record has one outcome and the offset says so."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.consumers.routes import RetryTopics
from kafka_redelivery.consumers.writes.decisions import BatchDependencies
from kafka_redelivery.pipeline.handler.batch_context import HEADERS
from kafka_redelivery.pipeline.handler.config import HandlerConfig
from kafka_redelivery.pipeline.handler.outcomes import Emitted, Handled, Outcomes
from kafka_redelivery.pipeline.handler.rows import SCHEMA, Rows
from kafka_redelivery.pipeline.task import task_run
from kafka_redelivery.pipeline.task.contract import TaskPlan
from kafka_redelivery.pipeline.task.task_run import SupersededError, TaskRun
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.topics.tiers import tier_set
from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.topology.wire.topic_mark import marked
from kafka_redelivery.transport.errors import RefusedRecord, WriteAbortedError, WriteRefusedError, WriterFencedError
from kafka_redelivery.transport.protocols import Partition, ProducerRecord, WriteResult

PLACE = Partition("t", 0)
SETTINGS = load_settings(
    json.dumps(
        {
            "group": "g",
            "kafka": {"bootstrap.servers": "nowhere"},
            "sources": [{"topic": "t"}],
            "handler": {"callable": "m:f"},
            "pipeline": {"checkpoint": "c"},
            "limits": {"batch": 10, "bufferBytes": 2**16},
        }
    )
)


class Kafka:
    """The committed offset, and a writer whose next writes end as the script says."""

    def __init__(self, *script: str) -> None:
        self.script = list(script)
        self.records: list[ProducerRecord] = []
        self.points: dict[Partition, Checkpoint] = {}
        self.taken_over = 0
        self.writes = 0

    def write(
        self, records: Sequence[ProducerRecord], points: Mapping[Partition, Checkpoint], *, group_metadata: object
    ) -> WriteResult:
        """One transaction."""
        del group_metadata
        self.writes += 1
        what = self.script.pop(0) if self.script else "ok"
        if what == "refused":
            index = next(n for n, record in enumerate(records) if record.topic == "out")
            raise WriteRefusedError([RefusedRecord(index, "too large")])
        if what == "aborted":
            raise WriteAbortedError("aborted")
        if what == "fenced":
            raise WriterFencedError("a sibling had it")
        self.records += records
        self.points |= points
        for place, point in self.points.items():
            progress = Progress.restore(point.offset, point.metadata)
            above = [offset for offset in emitted(self, place) if offset >= point.offset]
            assert not any(map(progress.track, above)), "written, and not committed"
        if what == "unknown":
            raise WriteAbortedError("settled by a new producer")
        return WriteResult(0.01)


class Handler:
    """Emits each record's offset, three records at a time."""

    def __init__(self, failing: frozenset[int] = frozenset(), critical: int = -1) -> None:
        self.failing = failing
        self.critical = critical

    full = False

    def handle(self, rows: Rows) -> Iterator[Handled]:
        """Yield the outcomes with their records."""
        position = 0
        for outcomes in self.outcomes(rows):
            found = rows[position : position + outcomes.number]
            position += outcomes.number
            yield Handled(rows.partition, found, found.bytes, outcomes)

    def collect(self, timeout_s: float) -> Iterator[Handled]:
        """Yield what is handled later."""
        del timeout_s
        yield from ()

    def abandon(self) -> None:
        """Forget everything."""

    def outcomes(self, rows: Rows) -> Iterator[Outcomes]:
        """Yield the outcomes."""
        for first in range(0, len(rows), 3):
            offsets = rows[first : first + 3].offsets()
            if self.critical in offsets:
                yield Outcomes(1, [(0, Failure(FailureKind.CRITICAL, "MemoryError"))])
                return
            failures = [(n, Failure(FailureKind.RAISED)) for n, offset in enumerate(offsets) if offset in self.failing]
            good = [
                (n, b"%d-%d" % (rows.partition.number, offset))
                for n, offset in enumerate(offsets)
                if offset not in self.failing
            ]
            columns = [
                pa.array([n for n, _ in good], pa.int32()),
                pa.nulls(len(good), pa.binary()),
                pa.array([value for _, value in good], pa.binary()),
                pa.nulls(len(good), HEADERS),
            ]
            table = pa.RecordBatch.from_arrays(columns, ["row", "key", "value", "headers"])
            yield Outcomes(len(offsets), failures, emitted=[Emitted("out", None, table)])


class Slots(Handler):
    """Several records at a time: outcomes come in any order, and later than their records are given."""

    def __init__(self, seed: int, failing: frozenset[int] = frozenset()) -> None:
        super().__init__(failing)
        self._random = Random(seed)  # noqa: S311 - only the order
        self._todo: list[tuple[Rows, int]] = []

    @property
    def full(self) -> bool:  # type: ignore[override]
        """Whether many records have no outcome."""
        return len(self._todo) > 25

    def handle(self, rows: Rows) -> Iterator[Handled]:
        """Accept records, and sometimes yield earlier ones."""
        self._todo += [(rows, index) for index in range(len(rows))]
        yield from self.collect(0.0)

    def collect(self, timeout_s: float) -> Iterator[Handled]:
        """Yield the outcomes of some records, of one partition at a time."""
        del timeout_s
        self._random.shuffle(self._todo)
        for _ in range(self._random.randrange(4)):
            if self._todo:
                rows, index = self._todo.pop()
                row = rows[index : index + 1]
                (outcomes,) = self.outcomes(row)
                yield Handled(row.partition, list(row), row.bytes, outcomes)


class FakeRunner:
    """A runner without processes and without Kafka."""

    def __init__(self, kafka: Kafka, handler: Handler) -> None:
        self.kafka = kafka
        self.handler = handler
        self.write_executor = ThreadPoolExecutor(1)
        self.routes = HandlerConfig(SETTINGS, Path(), (), 0, "").routes()
        retry_topics = RetryTopics(SETTINGS.naming(), tier_set(SETTINGS.entries().values()), Counter({"g.retry.1s": 1}))
        self.dependencies = BatchDependencies("g", retry_topics, lambda: 1_000, lambda: iter(()), {})

    def writer(self, number: int, plan: TaskPlan) -> tuple[Kafka, bool]:
        """Return the cached writer."""
        del number, plan
        return self.kafka, False

    def take_over(self, number: int, kept: object) -> Kafka:
        """Count it."""
        del number, kept
        self.kafka.taken_over += 1
        return self.kafka

    def committed(self, places: Iterable[Partition]) -> Mapping[Partition, Checkpoint | None]:
        """Return the committed offsets."""
        return {place: self.kafka.points.get(place) for place in places}


def run(
    kafka: Kafka,
    offsets: Sequence[int],
    handler: Handler | None = None,
    value: bytes = b"v",
    places: Sequence[Partition] = (PLACE,),
    *,
    mark: str = "",
    named_in_commits: bool = False,
) -> Sequence[str]:
    """Run a task with these records of each partition; the causes of its aborted writes."""
    runner: Any = FakeRunner(kafka, Handler() if handler is None else handler)
    config = HandlerConfig(SETTINGS, Path(), (), 0, "")
    plan = TaskPlan("q", config, None, {}, {}, marks={"t": mark}, named_in_commits=named_in_commits)
    task = TaskRun(runner, plan, 0)
    task.add([rows(place, offsets, value) for place in places])
    task.finish()
    return task.aborted


def rows(place: Partition, offsets: Sequence[int], value: bytes = b"v") -> Rows:
    """Records of one partition."""
    count = len(offsets)
    columns = [
        pa.nulls(count, pa.binary()),
        pa.array([value] * count, pa.binary()),
        pa.nulls(count, SCHEMA.field("headers").type),
        pa.array([place.topic] * count),
        pa.array([place.number] * count, pa.int32()),
        pa.array(offsets, pa.int64()),
        pa.array([1] * count, pa.int64()),
    ]
    return Rows(place, pa.RecordBatch.from_arrays(columns, schema=SCHEMA))


def emitted(kafka: Kafka, place: Partition = PLACE) -> list[int]:
    """The offsets of a partition whose records were emitted, in order."""
    found = [(record.value or b"").split(b"-") for record in kafka.records if record.topic == "out"]
    return sorted(int(offset) for number, offset in found if int(number) == place.number)


@pytest.fixture(autouse=True, params=[0.0, 60.0], ids=["each", "full"])
def written_after(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write in the middle of a run of records, or only full batches."""
    monkeypatch.setattr(task_run, "_WRITE_AFTER_S", request.param)
    monkeypatch.setattr(task_run, "_PAUSE_AFTER_ABORT_S", 0.0)


OFFSETS = [*range(5, 31), *range(40, 62)]
"""Offsets with a gap."""


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("what", ["ok", "aborted", "unknown", "fenced", "aborted aborted"])
def test_each_record_is_written_once(what: str, at: int) -> None:
    """Even if a write is aborted, committed with an unknown outcome, or fenced before the first commit."""
    if what == "fenced" and at:
        return
    kafka = Kafka(*["ok"] * at, *what.split())

    causes = run(kafka, OFFSETS)

    assert emitted(kafka) == OFFSETS
    assert kafka.points[PLACE] == Checkpoint(62, "")
    assert kafka.taken_over == (what == "fenced")
    assert len(causes) == sum(end in {"aborted", "unknown"} for end in what.split())


@pytest.mark.parametrize("what", ["ok", "aborted", "unknown"])
def test_an_offset_that_was_committed_in_an_older_topic_is_void(what: str) -> None:
    """All records of the new one are written, once, and the commits name it."""
    kafka = Kafka("ok", what)
    kafka.points[PLACE] = Checkpoint(50, marked("AAAA11111111", ""))

    run(kafka, OFFSETS, mark="AAAA22222222", named_in_commits=True)

    assert emitted(kafka) == OFFSETS
    assert kafka.points[PLACE] == Checkpoint(62, marked("AAAA22222222", ""))


def test_commits_name_no_topic_that_other_members_cannot_read() -> None:
    """Nor do they keep the name that an earlier commit has."""
    kafka = Kafka()
    kafka.points[PLACE] = Checkpoint(20, marked("AAAA22222222", ""))

    run(kafka, OFFSETS, mark="AAAA22222222")

    assert emitted(kafka) == [each for each in OFFSETS if each >= 20]
    assert kafka.points[PLACE] == Checkpoint(62, "")


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("what", ["ok", "aborted", "unknown", "fenced", "aborted aborted"])
def test_each_record_of_several_partitions_is_written_once(what: str, at: int) -> None:
    """One transaction may have records of several partitions; an aborted one is repeated for all of them."""
    if what == "fenced" and at:
        return
    kafka = Kafka(*["ok"] * at, *what.split())
    places = [Partition("t", number) for number in range(3)]
    kafka.points[places[1]] = Checkpoint(20, "")

    run(kafka, OFFSETS, Handler(), places=places)

    assert emitted(kafka, places[0]) == emitted(kafka, places[2]) == OFFSETS
    assert emitted(kafka, places[1]) == [offset for offset in OFFSETS if offset >= 20]
    assert kafka.points == dict.fromkeys(places, Checkpoint(62, ""))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("what", ["ok", "aborted", "unknown", "fenced", "refused", "aborted aborted"])
def test_each_record_is_written_once_although_records_end_out_of_order(what: str, seed: int) -> None:
    """The commits say which records above the committed offset are finished."""
    kafka = Kafka(*["ok"] * (0 if what == "fenced" else seed), *what.split())
    places = [Partition("t", number) for number in range(2)]
    kafka.points[places[1]] = Checkpoint(20, "")

    run(kafka, OFFSETS, Slots(seed, failing=frozenset({25})), places=places)

    retried = [record for record in kafka.records if record.topic == "g.retry.1s"]
    done = [emitted(kafka, place) for place in places]
    assert len(retried) == 2 + (what == "refused")
    assert len(set(done[0]) - {25}) == len(done[0])
    assert sum(map(len, done)) + len(retried) == len(OFFSETS) + sum(offset >= 20 for offset in OFFSETS)
    assert kafka.points == dict.fromkeys(places, Checkpoint(62, ""))


def test_records_of_several_partitions_are_one_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write costs more than the records in it."""
    monkeypatch.setattr(task_run, "_WRITE_AFTER_S", 60.0)
    kafka = Kafka()

    run(kafka, [1, 2, 3], places=[Partition("t", number) for number in range(3)])

    assert kafka.writes == 1
    assert len(kafka.points) == 3


@pytest.mark.parametrize("at", range(4))
def test_a_refused_output_is_a_failed_delivery(at: int) -> None:
    """Its record is retried, all others are emitted, and none is handled again."""
    kafka = Kafka(*["ok"] * at, "refused")

    causes = run(kafka, OFFSETS)

    assert len(causes) == 1
    retried = [record for record in kafka.records if record.topic == "g.retry.1s"]
    assert len(retried) == 1
    assert len(emitted(kafka)) == len(OFFSETS) - 1
    assert kafka.points[PLACE] == Checkpoint(62, "")


def test_large_records_make_a_batch_full() -> None:
    """A batch is full with half of ``bufferBytes``."""
    kafka = Kafka()

    run(kafka, OFFSETS[:8], value=b"v" * 20_000)

    assert kafka.writes == 3
    assert emitted(kafka) == OFFSETS[:8]


def test_committed_records_are_skipped() -> None:
    """A task that runs again continues at the committed offset."""
    kafka = Kafka()
    kafka.points[PLACE] = Checkpoint(20, "")

    run(kafka, OFFSETS, Handler(failing=frozenset({21})))

    assert emitted(kafka) == [offset for offset in OFFSETS if offset >= 20 and offset != 21]


def test_a_critical_failure_commits_nothing_past_it() -> None:
    """The outcomes before it are written, and the task halts."""
    kafka = Kafka()

    with pytest.raises(HaltedError, match="t-0@14"):
        run(kafka, OFFSETS, Handler(critical=14))

    assert kafka.points[PLACE] == Checkpoint(14, "")
    assert emitted(kafka) == list(range(5, 14))


def test_another_task_at_the_partition_ends_this_one() -> None:
    """The committed offset is neither the one before the write nor the one of the write."""
    kafka = Kafka("aborted")
    kafka.points[PLACE] = Checkpoint(5, "")
    moved = kafka.write

    def write(
        records: Sequence[ProducerRecord], points: Mapping[Partition, Checkpoint], *, group_metadata: object
    ) -> WriteResult:
        kafka.points[PLACE] = Checkpoint(9, "")
        return moved(records, points, group_metadata=group_metadata)

    kafka.write = write  # type: ignore[method-assign]

    with pytest.raises(SupersededError):
        run(kafka, OFFSETS)
