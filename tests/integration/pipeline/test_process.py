"""The process that runs the handler: its outcomes always belong to the records that it was sent."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from kafka_redelivery.consumers.handlers.child import Position
from kafka_redelivery.consumers.telemetry.logs import TEXT
from kafka_redelivery.pipeline.handler.child import HandlerConfig
from kafka_redelivery.pipeline.handler.handling import Handling
from kafka_redelivery.pipeline.handler.items import Outcomes
from kafka_redelivery.pipeline.handler.rows import SCHEMA, Rows
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.protocols import Partition
from tests.scenarios.waiting import until

HANDLERS = """
import multiprocessing
import os
import re
import time

def slow(record):
    time.sleep(0.03)
    if record.value == b"raise":
        raise ValueError
    if record.value == b"kill":
        os._exit(3)
    if record.value == b"stall":
        time.sleep(60)
    if record.value == b"backtrack":
        re.match("(a+)+$", 40 * "a" + "b")
    if record.value.isdigit():
        time.sleep(int(record.value))
    if record.value == b"fork and kill":
        multiprocessing.get_context("fork").Process(target=time.sleep, args=(240,)).start()
        os.kill(os.getpid(), 9)

def memory(batch, context):
    raise MemoryError
"""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Handling]:
    """The process of a slow handler."""
    found = start(tmp_path, "slow")
    try:
        yield found
    finally:
        found.close()


def test_outcomes_of_an_abandoned_run_are_dropped(process: Handling) -> None:
    """A fenced task gives up in the middle of it. The next task gets the outcomes of its own records only."""
    list(process.handle(rows([b"raise"] * 20)))
    process.abandon()

    found = run(process, rows([b"ok"] * 20))

    assert sum(each.number for each in found) == 20
    assert [failure for each in found for failure in each.failures] == []


@pytest.mark.timeout(180)
def test_a_death_is_detected_while_a_process_of_the_handler_lives(process: Handling) -> None:
    """A process that the handler forked holds the pipe open."""
    assert outcomes(run(process, rows([b"ok", b"fork and kill", b"ok"]))) == ["ok", "died", "ok"]


@pytest.mark.timeout(180)
def test_a_missed_deadline_is_not_called_a_death(tmp_path: Path) -> None:
    """The process that is killed at the deadline leaves the pipe readable: at its end."""
    process = start(tmp_path, "slow", deadline="6s")
    try:
        assert outcomes(run(process, rows([b"ok", b"stall", b"ok"]))) == ["ok", "deadline", "ok"]
    finally:
        process.close()


@pytest.mark.timeout(180)
def test_a_deadline_is_noticed_while_records_are_given(tmp_path: Path) -> None:
    """The handler keeps Python's lock, so that its process does not take the records that follow."""
    process = start(tmp_path, "slow", deadline="4s")
    try:
        found = [each.outcomes for each in process.handle(rows([b"backtrack"]))]
        found += [each.outcomes for each in process.collect(1.0)]
        found += [each.outcomes for each in process.handle(rows([b"x" * 1_000_000] * 2, first=1))]
        while sum(each.number for each in found) < 3:
            found += [each.outcomes for each in process.collect(0.2)]
    finally:
        process.close()
    assert outcomes(found) == ["deadline", "ok", "ok"]


@pytest.mark.timeout(180)
def test_a_record_that_has_just_begun_is_not_killed_for_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first call exceeds the deadline, and ends before the kill arrives. The second one is handled again."""
    process = start(tmp_path, "slow", deadline="6s")
    child = process._child
    assert child is not None
    kill = child._process.kill
    kills: list[Position | None] = []

    def current() -> Position | None:
        return next((found for each in child.positions if (found := each.read()) is not None), None)

    def kill_later() -> None:
        if not kills:  # not when what is left of it is removed
            first = current()
            until(lambda: current() not in {first, None}, "the next call has begun")
        kills.append(current())
        kill()

    monkeypatch.setattr(child._process, "kill", kill_later)
    try:
        assert outcomes(run(process, rows([b"8", b"3", b"ok"]))) == ["ok", "ok", "ok"]
    finally:
        process.close()
    assert (kills[0] or ())[1:3] == (1, 1), "the second record was being handled"


@pytest.mark.timeout(180)
def test_no_outcome_is_awaited_after_a_critical_failure(tmp_path: Path) -> None:
    """A vectorised handler is out of memory, and the next record has expired."""
    process = start(tmp_path, "memory", vectorized=True)
    try:
        found = run(process, rows([b"ok"] * 2, [None, b"1"]))
    finally:
        process.close()

    assert found[-1].critical
    assert outcomes(found) == ["critical", "expired"]


def run(process: Handling, given: Rows) -> list[Outcomes]:
    """Have records handled, up to a critical failure, and return their outcomes."""
    found = [each.outcomes for each in process.handle(given)]
    while sum(each.number for each in found) < len(given) and not any(each.critical for each in found):
        found += [each.outcomes for each in process.collect(0.2)]
    return found


def start(folder: Path, name: str, **handler: object) -> Handling:
    """Start the process of one of the handlers."""
    (folder / "slow_handlers.py").write_text(HANDLERS, encoding="utf-8")
    settings = {
        "group": "g",
        "kafka": {"bootstrap.servers": "nowhere"},
        "sources": [{"topic": "t"}],
        "handler": {"callable": f"slow_handlers:{name}", **handler},
    }
    config = HandlerConfig(load_settings(json.dumps(settings)), folder, (*sys.path, str(folder)), 30, TEXT)
    return Handling(config)


def rows(values: Sequence[bytes], expirations: Sequence[bytes | None] = (), first: int = 0) -> Rows:
    """Records of one partition."""
    count = len(values)
    headers = [None if each is None else [{"key": "JMSExpiration", "value": each}] for each in expirations]
    headers += [None] * (count - len(headers))
    columns = [[None] * count, values, headers, ["t"] * count, [0] * count, range(first, first + count), [0] * count]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return Rows(Partition("t", 0), pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))


def outcomes(found: Sequence[Outcomes]) -> list[str]:
    """The outcome of each record."""
    failed = [(dict(each.failures), each.number) for each in found]
    return [str(failures[n].kind) if n in failures else "ok" for failures, number in failed for n in range(number)]
