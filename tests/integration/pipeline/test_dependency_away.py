"""What a handler depends on is away: its process leaves those records without outcomes, and goes on with others."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from kafka_redelivery.consumers.telemetry.logs import TEXT
from kafka_redelivery.pipeline.handler.child import Attempt, HandlerConfig
from kafka_redelivery.pipeline.handler.handling import Handling
from kafka_redelivery.pipeline.handler.items import Handled
from kafka_redelivery.pipeline.handler.rows import SCHEMA, Rows
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.protocols import Partition

pytestmark = pytest.mark.timeout(180)

HANDLERS = """
import asyncio
import time
from datetime import timedelta
from pathlib import Path

from kafka_redelivery import Unavailable

HERE = Path(__file__).parent

class Down(Exception):
    pass

def call(record):
    with (HERE / "calls").open("a") as calls:
        calls.write(f"{record.partition} {record.offset}\\n")
    time.sleep(0.005)
    if (HERE / "down").exists():
        raise Down("no answer")
    if (HERE / "closed").exists():
        raise Unavailable("bank", retry_after=timedelta(seconds=7))
    if (HERE / "hangs").exists():
        time.sleep(60)
    if record.value == b"raise":
        raise ValueError

async def call_async(record):
    if (HERE / "hangs").exists():
        await asyncio.sleep(60)
    call(record)

def print_it(record):
    pass
"""
NUMBER = 50


class Process:
    """The handlers' process, whose records of ``orders`` need the bank; those of ``notes`` do not."""

    def __init__(self, folder: Path, *, dependency: dict[str, object] | None = None, **handler: object) -> None:
        self.folder = folder
        (folder / "bank_handlers.py").write_text(HANDLERS, encoding="utf-8")
        calling = {"callable": "bank_handlers:call"} | handler
        settings = {
            "group": "g",
            "kafka": {"bootstrap.servers": "nowhere", "log_level": 0},
            "sources": [
                {"topic": "orders", "dependencies": ["bank"], "handler": calling},
                {"topic": "notes", "handler": {"callable": "bank_handlers:print_it"}},
            ],
            "dependencies": {"bank": {"unavailable": ["bank_handlers:Down"]} | (dependency or {})},
        }
        path = (*sys.path, str(folder))
        self.handling = Handling(HandlerConfig(load_settings(json.dumps(settings)), folder, path, 30, TEXT))

    @property
    def calls(self) -> Counter[str]:
        """How often the bank was called for each record."""
        calls = self.folder / "calls"
        return Counter(calls.read_text(encoding="utf-8").splitlines() if calls.exists() else ())

    def run(self, *given: Rows, attempt: Attempt = Attempt(1)) -> list[Handled]:  # noqa: B008 - a constant
        """Have records handled or left."""
        self.handling.attempt = attempt
        found = [each for rows in given for each in self.handling.handle(rows)]
        while sum(each.outcomes.number for each in found) < sum(map(len, given)):
            found += self.handling.collect(1.0)
        return found


def rows(topic: str = "orders", number: int = 0, value: bytes = b"ok") -> Rows:
    """Records of one partition."""
    records = [
        {"topic": topic, "value": value, "partition": number, "offset": n, "timestamp": 0} for n in range(NUMBER)
    ]
    return Rows(Partition(topic, number), pa.RecordBatch.from_pylist(records, SCHEMA))


def outcomes(found: list[Handled]) -> Counter[str]:
    """How many records of which topic have which outcome."""
    counted: Counter[str] = Counter()
    for each in found:
        failed = len(each.outcomes.failures)
        label = f"waits for {each.outcomes.waits}" if each.outcomes.waits else "ok"
        counted[f"{each.records.partition.topic} {label}"] += each.outcomes.number - failed
        counted.update(f"{each.records.partition.topic} {f.kind} {f.dependency}" for _, f in each.outcomes.failures)
    return +counted


@pytest.fixture
def process(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Process]:
    """A process with the handler that the test asks for."""
    found = Process(tmp_path, **getattr(request, "param", {}))
    try:
        yield found
    finally:
        found.handling.close()


@pytest.mark.parametrize(
    ("process", "slots"),
    [
        ({}, 1),
        ({"slots": 4}, 4),
        ({"slots": 4, "ordering": "unordered"}, 4),
        ({"slots": 4, "ordering": "key", "isolation": "process"}, 4),
        ({"callable": "bank_handlers:call_async", "slots": 4}, 4),
    ],
    indirect=["process"],
)
@pytest.mark.parametrize("how", ["down", "closed"])
def test_each_slot_calls_once_and_all_records_wait(process: Process, slots: int, how: str) -> None:
    """Those of the other source are handled. The next attempt handles all, in the same process."""
    (process.folder / how).touch()
    given = rows(), rows(number=1), rows("notes")
    found = process.run(*given)
    assert outcomes(found) == {"orders waits for bank": 2 * NUMBER, "notes ok": NUMBER}
    met = [each.outcomes.met for each in found if each.outcomes.met is not None]
    assert 1 <= len(met) <= 2 * slots  # a record may be queued behind that of each slot
    assert {failure.after_ms for failure in met} == {7_000 if how == "closed" else None}
    assert process.calls.total() == len(met)
    assert outcomes(process.run(rows())) == {"orders waits for bank": NUMBER}, "a later task of the same attempt"
    assert process.calls.total() == len(met)

    (process.folder / how).unlink()
    assert outcomes(process.run(*given, attempt=Attempt(2))) == {"orders ok": 2 * NUMBER, "notes ok": NUMBER}


@pytest.mark.parametrize(
    "process",
    [
        {"deadline": "2s", "dependency": {"deadline": True}},
        {"deadline": "2s", "dependency": {"deadline": True}, "callable": "bank_handlers:call_async", "slots": 2},
    ],
    indirect=True,
)
def test_a_missed_deadline_may_mean_that_it_is_away(process: Process) -> None:
    """One call is enough, although the process of a plain function is killed. After too long the policy decides."""
    (process.folder / "hangs").touch()
    given = rows(), rows(number=1)
    assert outcomes(process.run(*given)) == {"orders waits for bank": 2 * NUMBER}
    assert process.calls.total() <= 1

    first = rows()[:2]
    failing = process.run(first, attempt=Attempt(2, failing=frozenset({"bank"})))
    assert outcomes(failing) == {"orders raised bank": 2}


@pytest.mark.parametrize("process", [{"dependency": {"threshold": "50% of 10"}}], indirect=True)
def test_fewer_failures_than_the_threshold_are_those_of_their_records(process: Process) -> None:
    """The tenth call of this process is enough. While its outage is open, one is."""
    (process.folder / "down").touch()
    assert outcomes(process.run(rows())) == {"orders raised bank": 9, "orders waits for bank": NUMBER - 9}
    process.handling.abandon()
    process.handling.close()


@pytest.mark.parametrize("process", [{"slots": 8, "ordering": "unordered"}], indirect=True)
def test_the_load_rises_from_one(process: Process) -> None:
    """In the first second after the answer one record is handled at a time, whatever the number of slots."""
    (process.folder / "down").touch()
    first_step = Attempt(2, open={"bank": -3600.0})  # so that no pause of this machine leads to the next step
    found = process.run(rows(), attempt=first_step)
    assert process.calls.total() == 1
    assert outcomes(found) == {"orders waits for bank": NUMBER}


def test_after_the_longest_outage_the_policy_decides(process: Process) -> None:
    """Then each record has failed as if the handler had raised anything else."""
    (process.folder / "down").touch()
    found = process.run(rows(), attempt=Attempt(2, failing=frozenset({"bank"})))
    assert outcomes(found) == {"orders raised bank": NUMBER}
