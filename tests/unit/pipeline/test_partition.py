"""A task's writes: whatever they end in, each record has one outcome and the offset says so."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from consumers.batch import Shared
from consumers.errors import HaltedError
from consumers.routes import Waiting
from pipeline import partition
from pipeline.batch_context import HEADERS, Emitted
from pipeline.done import Done
from pipeline.partition import PartitionRun, SupersededError
from pipeline.rows import SCHEMA, Rows
from pipeline.setup import Setup
from pipeline.task_plan import TaskPlan
from topology.configuration import load_settings
from topology.decision import Failure, FailureKind
from topology.progress import Checkpoint
from topology.tiers import tier_set
from transport.errors import Refusal, WriteRefusedError, WriterFencedError, WriteUndoneError
from transport.protocols import Copy, Partition, Written

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
    """What is committed, and a writer whose next writes end as a script says."""

    def __init__(self, *script: str) -> None:
        self.script = list(script)
        self.copies: list[Copy] = []
        self.point: Checkpoint | None = None
        self.taken_over = 0
        self.writes = 0

    def write(self, copies: Sequence[Copy], points: Mapping[Partition, Checkpoint], *, member: object) -> Written:
        """One transaction."""
        del member
        self.writes += 1
        what = self.script.pop(0) if self.script else "ok"
        if what == "refused":
            index = next(n for n, copy in enumerate(copies) if copy.topic == "out")
            raise WriteRefusedError([Refusal(index, "too large")])
        if what == "undone":
            raise WriteUndoneError("aborted")
        if what == "fenced":
            raise WriterFencedError("a sibling had it")
        self.copies += copies
        self.point = points[PLACE]
        assert all(offset < self.point.offset for offset in emitted(self)), "written, and not committed"
        if what == "unknown":
            raise WriteUndoneError("settled by a new producer")
        return Written(0.01)


class Handler:
    """Emits each record's offset, three records at a time."""

    def __init__(self, failing: frozenset[int] = frozenset(), critical: int = -1) -> None:
        self.failing = failing
        self.critical = critical

    def run(self, rows: Rows) -> Iterator[Done]:
        """Tell of them."""
        for first in range(0, len(rows), 3):
            offsets = rows[first : first + 3].offsets()
            if self.critical in offsets:
                yield Done(1, [(0, Failure(FailureKind.CRITICAL, "MemoryError"))])
                return
            failures = [(n, Failure(FailureKind.RAISED)) for n, offset in enumerate(offsets) if offset in self.failing]
            good = [(n, b"%d" % offset) for n, offset in enumerate(offsets) if offset not in self.failing]
            columns = [
                pa.array([n for n, _ in good], pa.int32()),
                pa.nulls(len(good), pa.binary()),
                pa.array([value for _, value in good], pa.binary()),
                pa.nulls(len(good), HEADERS),
            ]
            table = pa.RecordBatch.from_arrays(columns, ["row", "key", "value", "headers"])
            yield Done(len(offsets), failures, emitted=[Emitted("out", None, table)])


class FakeRunner:
    """A Python worker's, without processes and without Kafka."""

    def __init__(self, kafka: Kafka, handler: Handler) -> None:
        self.kafka = kafka
        self.handler = handler
        self.beside = ThreadPoolExecutor(1)
        self.routes = Setup(SETTINGS, Path(), (), 0, "").routes()
        waiting = Waiting(SETTINGS.naming(), tier_set(SETTINGS.entries().values()), Counter({"g.retry.1s": 1}))
        self.shared = Shared("g", waiting, lambda: 1_000, lambda: iter(()), {})

    def writer(self, place: Partition, plan: TaskPlan) -> tuple[Kafka, bool]:
        """The one that there is, kept from before."""
        del place, plan
        return self.kafka, False

    def take_over(self, place: Partition, kept: object) -> Kafka:
        """The same."""
        del place, kept
        self.kafka.taken_over += 1
        return self.kafka

    def committed(self, place: Partition) -> Checkpoint | None:
        """What is committed."""
        del place
        return self.kafka.point


def run(kafka: Kafka, offsets: Sequence[int], handler: Handler | None = None, value: bytes = b"v") -> Sequence[str]:
    """A task with these records; why writes of it were undone."""
    runner: Any = FakeRunner(kafka, Handler() if handler is None else handler)
    plan = TaskPlan("q", Setup(SETTINGS, Path(), (), 0, ""), None, {}, {})
    task = PartitionRun(runner, plan, PLACE, offsets[0])
    count = len(offsets)
    columns = [
        pa.nulls(count, pa.binary()),
        pa.array([value] * count, pa.binary()),
        pa.nulls(count, SCHEMA.field("headers").type),
        pa.array(["t"] * count),
        pa.array([0] * count, pa.int32()),
        pa.array(offsets, pa.int64()),
        pa.array([1] * count, pa.int64()),
    ]
    task.add(Rows(PLACE, pa.RecordBatch.from_arrays(columns, schema=SCHEMA)))
    task.finish()
    return task.undone


def emitted(kafka: Kafka) -> list[int]:
    """The offsets whose records were emitted, in order."""
    return sorted(int(copy.value or b"") for copy in kafka.copies if copy.topic == "out")


@pytest.fixture(autouse=True, params=[0.0, 60.0], ids=["each", "full"])
def written_after(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes begin in the middle of what the handler has in hand, or when a batch is full."""
    monkeypatch.setattr(partition, "_WRITE_AFTER_S", request.param)


OFFSETS = [*range(5, 31), *range(40, 62)]
"""With a hole."""


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("what", ["ok", "undone", "unknown", "fenced", "undone undone"])
def test_each_record_is_written_once(what: str, at: int) -> None:
    """Whichever write is undone, or done without anybody being told, or fenced by a sibling before the first."""
    if what == "fenced" and at:
        return
    kafka = Kafka(*["ok"] * at, *what.split())

    undone = run(kafka, OFFSETS)

    assert emitted(kafka) == OFFSETS
    assert kafka.point == Checkpoint(62, "")
    assert kafka.taken_over == (what == "fenced")
    assert len(undone) == what.count("un")


@pytest.mark.parametrize("at", range(4))
def test_a_refused_output_is_a_failed_delivery(at: int) -> None:
    """Its record is retried, all others are emitted, and nothing is handled again."""
    kafka = Kafka(*["ok"] * at, "refused")

    undone = run(kafka, OFFSETS)

    assert len(undone) == 1
    retried = [copy for copy in kafka.copies if copy.topic == "g.retry.1s"]
    assert len(retried) == 1
    assert len(emitted(kafka)) == len(OFFSETS) - 1
    assert kafka.point == Checkpoint(62, "")


def test_large_records_are_not_gathered_until_there_are_many() -> None:
    """What has half of ``bufferBytes`` is written, however few records it is."""
    kafka = Kafka()

    run(kafka, OFFSETS[:8], value=b"v" * 20_000)

    assert kafka.writes == 3
    assert emitted(kafka) == OFFSETS[:8]


def test_what_is_committed_is_skipped() -> None:
    """A task that is run again goes on behind what the group has committed."""
    kafka = Kafka()
    kafka.point = Checkpoint(20, "")

    run(kafka, OFFSETS, Handler(failing=frozenset({21})))

    assert emitted(kafka) == [offset for offset in OFFSETS if offset >= 20 and offset != 21]


def test_a_critical_failure_commits_nothing_past_it() -> None:
    """What ended before it is written, the task halts, and the offset stays."""
    kafka = Kafka()

    with pytest.raises(HaltedError, match="t-0@14"):
        run(kafka, OFFSETS, Handler(critical=14))

    assert kafka.point == Checkpoint(14, "")
    assert emitted(kafka) == list(range(5, 14))


def test_somebody_else_at_the_partition_ends_the_task() -> None:
    """An offset that neither this task nor its predecessor committed means that another one has the partition."""
    kafka = Kafka("undone")
    kafka.point = Checkpoint(5, "")
    moved = kafka.write

    def write(copies: Sequence[Copy], points: Mapping[Partition, Checkpoint], *, member: object) -> Written:
        kafka.point = Checkpoint(9, "")
        return moved(copies, points, member=member)

    kafka.write = write  # type: ignore[method-assign]

    with pytest.raises(SupersededError):
        run(kafka, OFFSETS)
