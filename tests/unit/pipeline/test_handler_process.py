"""The process that runs the handler: what it tells is always of the records that it was asked about."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from consumers.logs import TEXT
from pipeline.done import Done
from pipeline.handler_process import HandlerProcess
from pipeline.rows import SCHEMA, Rows
from pipeline.setup import Setup
from topology.configuration import load_settings
from transport.protocols import Partition

HANDLERS = """
import multiprocessing
import os
import time

def slow(record):
    time.sleep(0.03)
    if record.value == b"raise":
        raise ValueError
    if record.value == b"kill":
        os._exit(3)
    if record.value == b"fork and kill":
        multiprocessing.get_context("fork").Process(target=time.sleep, args=(90,)).start()
        os.kill(os.getpid(), 9)

def memory(batch, context):
    raise MemoryError
"""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[HandlerProcess]:
    """Of a handler that takes longer than one message is worth."""
    found = start(tmp_path, "slow")
    try:
        yield found
    finally:
        found.close()


def test_what_a_run_that_was_given_up_still_tells_is_nobodys(process: HandlerProcess) -> None:
    """A task gives up in the middle of a run, when it is fenced: the next one is told of its own records alone."""
    next(process.run(rows([b"raise"] * 20)))

    told = list(process.run(rows([b"ok"] * 20)))

    assert sum(done.number for done in told) == 20
    assert [failure for done in told for failure in done.failures] == []


@pytest.mark.timeout(60)
def test_the_death_is_noticed_though_a_process_of_the_handlers_lives_on(process: HandlerProcess) -> None:
    """What the handler has forked does not keep its parent waiting for an answer of the dead."""
    assert outcomes(list(process.run(rows([b"ok", b"fork and kill", b"ok"])))) == ["ok", "died", "ok"]


@pytest.mark.timeout(60)
def test_nothing_is_waited_for_after_a_critical_failure(tmp_path: Path) -> None:
    """A vectorised handler is out of memory, and the next record has expired: that is told, and then no more."""
    process = start(tmp_path, "memory", vectorized=True)
    try:
        told = list(process.run(rows([b"ok"] * 2, [None, b"1"])))
    finally:
        process.close()

    assert told[-1].critical
    assert outcomes(told) == ["critical", "expired"]


def start(folder: Path, name: str, **handler: object) -> HandlerProcess:
    """The process of one of the handlers."""
    (folder / "slow_handlers.py").write_text(HANDLERS, encoding="utf-8")
    settings = {
        "group": "g",
        "kafka": {"bootstrap.servers": "nowhere"},
        "sources": [{"topic": "t"}],
        "handler": {"callable": f"slow_handlers:{name}", **handler},
    }
    setup = Setup(load_settings(json.dumps(settings)), folder, (*sys.path, str(folder)), 30, TEXT)
    return HandlerProcess(setup)


def rows(values: Sequence[bytes], expirations: Sequence[bytes | None] = ()) -> Rows:
    """Records of one partition."""
    count = len(values)
    headers = [None if each is None else [{"key": "JMSExpiration", "value": each}] for each in expirations]
    headers += [None] * (count - len(headers))
    columns = [[None] * count, values, headers, ["t"] * count, [0] * count, range(count), [0] * count]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return Rows(Partition("t", 0), pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))


def outcomes(told: Sequence[Done]) -> list[str]:
    """What became of each record."""
    failed = [(dict(done.failures), done.number) for done in told]
    return [str(failures[n].kind) if n in failures else "ok" for failures, number in failed for n in range(number)]
