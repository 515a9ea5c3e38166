"""A task's writes: whatever they end in, each record has one outcome and the offset says so."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.consumers.routes import RetryTopics
from kafka_redelivery.consumers.writes.decisions import BatchDependencies
from kafka_redelivery.pipeline.handler.child import FIRST_ATTEMPT, Attempt, HandlerConfig
from kafka_redelivery.pipeline.handler.computed import ComputedOutcomes, Computing
from kafka_redelivery.pipeline.handler.items import Emitted, Handled, Outcomes
from kafka_redelivery.pipeline.handler.rows import HEADERS, SCHEMA, Rows
from kafka_redelivery.pipeline.task import task_run
from kafka_redelivery.pipeline.task.contract import TaskPlan
from kafka_redelivery.pipeline.task.task_run import TaskRun, fitting
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.topics.tiers import tier_set
from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.topology.wire.topic_mark import marked
from kafka_redelivery.transport.clients.write_thread import WriteThread
from kafka_redelivery.transport.errors import (
    MembershipOutdatedError,
    OffsetsForbiddenError,
    RefusalCause,
    RefusedRecord,
    WriteAbortedError,
    WriteRefusedError,
    WriterFencedError,
)
from kafka_redelivery.transport.protocols import Partition, ProducerRecord, WriteResult
from tests.unit.consumers.doubles import Clock
from tests.unit.pipeline.handler.test_computed import ENTRY

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
CONFIG = HandlerConfig(SETTINGS, Path(), (), 0, "")


class Kafka:
    """The committed offset, and a writer whose next writes end as the script says."""

    def __init__(self, *script: str) -> None:
        self.script = list(script)
        self.records: list[ProducerRecord] = []
        self.points: dict[Partition, Checkpoint] = {}
        self.writes = 0

    def group_metadata(self) -> object:
        """The driver's membership."""

    def write(
        self,
        records: Sequence[ProducerRecord],
        points: Mapping[Partition, Checkpoint],
        release_time: object = None,
        group_metadata: object = None,
    ) -> WriteResult:
        """One transaction."""
        del release_time, group_metadata
        self.writes += 1
        what = self.script.pop(0) if self.script else "ok"
        if what == "refused":
            index = next(n for n, record in enumerate(records) if record.topic == "out")
            raise WriteRefusedError([RefusedRecord(index, what, RefusalCause.OTHER)])
        if what == "retry refused":
            index = next(n for n, record in enumerate(records) if record.topic == "g.retry.1s")
            raise WriteRefusedError([RefusedRecord(index, what, RefusalCause.OTHER)])
        if what == "aborted":
            raise WriteAbortedError("aborted")
        if what == "no right to write":
            raise WriteRefusedError([RefusedRecord(0, what, RefusalCause.FORBIDDEN)])
        if what == "no right to commit":
            raise OffsetsForbiddenError(what, ["t"])
        if what == "outdated":
            raise MembershipOutdatedError("rebalance")
        if what == "fenced":
            raise WriterFencedError("another driver has the name", as_member=True)
        self.records += records
        self.points |= points
        for place, point in self.points.items():
            progress = Progress.restore(point.offset, point.metadata)
            above = [offset for offset in emitted(self, place) if offset >= point.offset]
            assert not any(map(progress.track, above)), "written, and not committed"
        if what == "unknown":
            raise WriteAbortedError("settled by a new producer")
        return WriteResult(0.01)

    def finish(self, points: Mapping[Partition, Checkpoint]) -> None:
        """Nothing is left to commit."""


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
            yield Handled(found, outcomes)

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
                yield Handled(row, outcomes)


class FakeRunner:
    """A runner without processes and without Kafka."""

    name = "worker"

    def __init__(self, kafka: Kafka, handler: Handler) -> None:
        self.kafka = kafka
        self.handler = handler
        self.routes = CONFIG.routes()
        retry_topics = RetryTopics(
            SETTINGS.naming(), tier_set(SETTINGS.entries().values()), Counter({"g.retry.1s": 1, "DLQ.t": 1})
        )
        self.dependencies = BatchDependencies("g", retry_topics, lambda: 1_000, lambda: iter(()), {})

    def writer(self, number: int, plan: TaskPlan) -> WriteThread:
        """Return the cached writer."""
        del number, plan
        return WriteThread(self.kafka)  # type: ignore[arg-type] # has no trials

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
    attempt: Attempt = FIRST_ATTEMPT,
) -> Sequence[str]:
    """Run a task with these records of each partition; the causes of its aborted writes."""
    marks = {"t": mark}
    plan = TaskPlan("q", CONFIG, None, {}, {}, marks=marks, named_in_commits=named_in_commits, attempt=attempt)
    return run_rows(kafka, [rows(place, offsets, value) for place in places], handler, plan)


def run_rows(kafka: Kafka, given: Sequence[Rows], handler: Any = None, plan: TaskPlan | None = None) -> Sequence[str]:  # noqa: ANN401 - of several kinds
    """Run a task with these records; the causes of its aborted writes."""
    runner: Any = FakeRunner(kafka, handler or Handler())
    task = TaskRun(runner, plan or TaskPlan("q", CONFIG, None, {}, {}), 0)
    task.add(given)
    task.finish()
    return task.report.aborted


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


def with_entries(found: Rows, entry: Mapping[str, Any]) -> Rows:
    """The records with an entry each, as a DataFrame has computed it; its value has the offset."""
    value = entry.get("value")
    entries = [
        [dict(entry) | {"sent": value is not None, "value": value and value % offset}] for offset in found.offsets()
    ]
    column = pa.array(entries, pa.list_(ENTRY))
    return Rows(found.partition, found.batch.append_column("outcomes", column))


def emitted(kafka: Kafka, place: Partition = PLACE) -> list[int]:
    """The offsets of a partition whose records were emitted, in order."""
    found = [(record.value or b"").split(b"-") for record in kafka.records if record.topic == "out"]
    return sorted(int(offset) for number, offset in found if int(number) == place.number)


@pytest.fixture(autouse=True, params=[0.0, 60.0], ids=["each", "full"])
def written_after(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write in the middle of a run of records, or only full batches."""
    monkeypatch.setattr(task_run, "_WRITE_AFTER_S", request.param)
    monkeypatch.setattr(task_run, "_PAUSE_AFTER_REFUSAL_S", 0.0)


OFFSETS = [*range(5, 31), *range(40, 62)]
"""Offsets with a gap."""


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("what", ["ok", "aborted", "unknown", "aborted aborted"])
def test_each_record_is_written_once(what: str, at: int) -> None:
    """Even if a write is aborted, or committed with an unknown outcome."""
    kafka = Kafka(*["ok"] * at, *what.split())

    causes = run(kafka, OFFSETS)

    assert emitted(kafka) == OFFSETS
    assert kafka.points[PLACE] == Checkpoint(62, "")
    assert len(causes) == sum(end in {"aborted", "unknown"} for end in what.split())


def test_records_of_a_compacted_topic_that_end_in_any_order() -> None:
    """The metadata of a commit has no room for three hundred records with wide gaps between them."""
    wide = SETTINGS.model_copy(update={"limits": SETTINGS.limits.model_copy(update={"batch": 10_000})})
    offsets = [16_384 * n for n in range(1, 301)]
    kafka = Kafka()

    run_rows(kafka, [rows(PLACE, offsets)], Slots(1), TaskPlan("q", replace(CONFIG, settings=wide), None, {}, {}))

    assert emitted(kafka) == offsets
    assert kafka.points[PLACE] == Checkpoint(offsets[-1] + 1, "")


def test_records_without_wide_gaps_stay_together() -> None:
    """As those of a topic that has transactions."""
    together = rows(PLACE, range(7, 2_007, 2))
    assert fitting(together) is together
    assert len(fitting(rows(PLACE, range(0, 100_000, 100)))) == 125


@pytest.mark.parametrize("what", ["aborted", "aborted aborted", "refused"])
def test_each_record_has_an_outcome_although_the_last_write_ends_so(what: str) -> None:
    """It is repeated in several smaller writes, and the task ends after the last of them."""
    counted = Kafka()
    run(counted, OFFSETS)
    kafka = Kafka(*["ok"] * (counted.writes - 1), *what.split())

    run(kafka, OFFSETS)

    retried = [record for record in kafka.records if record.topic == "g.retry.1s"]
    assert len(emitted(kafka)) + len(retried) == len(OFFSETS)
    assert kafka.points[PLACE] == Checkpoint(62, "")


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
@pytest.mark.parametrize("what", ["ok", "aborted", "unknown", "aborted aborted"])
def test_each_record_of_several_partitions_is_written_once(what: str, at: int) -> None:
    """One transaction may have records of several partitions; an aborted one is repeated for all of them."""
    kafka = Kafka(*["ok"] * at, *what.split())
    places = [Partition("t", number) for number in range(3)]
    kafka.points[places[1]] = Checkpoint(20, "")

    run(kafka, OFFSETS, Handler(), places=places)

    assert emitted(kafka, places[0]) == emitted(kafka, places[2]) == OFFSETS
    assert emitted(kafka, places[1]) == [offset for offset in OFFSETS if offset >= 20]
    assert kafka.points == dict.fromkeys(places, Checkpoint(62, ""))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("what", ["ok", "aborted", "unknown", "refused", "aborted aborted"])
def test_each_record_is_written_once_although_records_end_out_of_order(what: str, seed: int) -> None:
    """The commits say which records above the committed offset are finished."""
    kafka = Kafka(*["ok"] * seed, *what.split())
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


@pytest.mark.parametrize("offset", [5, 8, 44])
def test_a_single_record_is_handled_before_those_in_front_of_it(offset: int) -> None:
    """With several slots the one that met an outage may have unfinished ones before it. These are handled later."""
    kafka = Kafka()

    run(kafka, OFFSETS, attempt=Attempt(number=2, only=(PLACE, offset)))
    assert emitted(kafka) == [offset]

    run(kafka, OFFSETS)
    assert emitted(kafka) == OFFSETS


def test_large_records_make_a_batch_full() -> None:
    """A batch is full with half of ``bufferBytes``."""
    kafka = Kafka()

    run(kafka, OFFSETS[:8], value=b"v" * 20_000)

    assert kafka.writes == 3
    assert emitted(kafka) == OFFSETS[:8]


@pytest.mark.parametrize("at", range(4))
def test_rows_that_decide_otherwise_the_second_time_repeat_nothing(at: int) -> None:
    """A DataFrame is computed again after a death, and may have other rows then. Each record has one outcome."""
    kafka = Kafka(*["ok"] * at, "fenced")
    computed = ComputedOutcomes(Computing("out"), CONFIG.routes())
    with pytest.raises(WriterFencedError):
        run_rows(kafka, [with_entries(rows(PLACE, OFFSETS), {"value": b"0-%d"})], computed)
    before = emitted(kafka)
    assert bool(before) == bool(at)

    kafka.script.clear()
    rejected = {"failure": {"kind": "rejected", "exception": "Reject"}}
    run_rows(kafka, [with_entries(rows(PLACE, OFFSETS), rejected)], computed)

    ids = [dict(each.headers or ())["_AMQ_ORIG_MESSAGE_ID"] for each in kafka.records if each.topic == "DLQ.t"]
    assert emitted(kafka) == before
    assert sorted([*before, *(int((each or b"").rpartition(b"@")[2]) for each in ids)]) == OFFSETS


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

    def write(records: Sequence[ProducerRecord], points: Mapping[Partition, Checkpoint], *more: object) -> WriteResult:
        kafka.points[PLACE] = Checkpoint(9, "")
        return moved(records, points, *more)

    kafka.write = write  # type: ignore[assignment,method-assign]

    with pytest.raises(WriteAbortedError, match="another task"):
        run(kafka, OFFSETS)


@pytest.mark.parametrize(("what", "error"), [("outdated", MembershipOutdatedError), ("fenced", WriterFencedError)])
def test_a_membership_that_kafka_does_not_accept_any_more_ends_the_task(what: str, error: type[Exception]) -> None:
    """Only the driver can join again. What was committed before stays."""
    kafka = Kafka("ok", what)

    with pytest.raises(error):
        run(kafka, OFFSETS)

    assert kafka.writes == 2


@pytest.mark.parametrize("what", ["no right to write", "no right to commit"])
def test_a_missing_right_ends_the_task_after_a_minute(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then each write is repeated, because a task has no partition that can go on without the others."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.writes.engine.monotonic_s", clock)
    kafka = Kafka("ok", *[what] * 9)
    write = kafka.write

    def slow(*arguments: Any) -> WriteResult:  # noqa: ANN401 - as given
        clock.advance(25)
        return write(*arguments)

    kafka.write = slow  # type: ignore[assignment,method-assign]

    with pytest.raises(HaltedError, match=what):
        run(kafka, OFFSETS)

    assert kafka.writes == 5
    assert kafka.points[PLACE].offset < 62


def test_the_configuration_of_a_tier_decides_about_no_record() -> None:
    """The write is repeated until the tier takes the record, which no dead letter replaces."""
    kafka = Kafka("retry refused", "retry refused")

    assert len(run(kafka, OFFSETS[:9], Handler(frozenset(OFFSETS[:1])))) == 2

    assert Counter(record.topic for record in kafka.records if record.topic != "out") == {"g.retry.1s": 1}
    assert emitted(kafka) == OFFSETS[1:9]


def test_what_is_refused_for_a_cause_outside_is_written_when_it_is_gone() -> None:
    """No record has failed."""
    kafka = Kafka("no right to write", "no right to commit")

    assert len(run(kafka, OFFSETS)) == 2

    assert emitted(kafka) == OFFSETS
    assert kafka.points[PLACE] == Checkpoint(62, "")
