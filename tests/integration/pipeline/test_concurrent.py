"""Slots in the handler's process: concurrency, order, and what becomes of records when the process dies."""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.telemetry.logs import TEXT
from kafka_redelivery.pipeline.handler.child import HandlerConfig
from kafka_redelivery.pipeline.handler.handling import Handling
from kafka_redelivery.pipeline.handler.items import Handled
from kafka_redelivery.pipeline.handler.rows import SCHEMA, Rows
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.protocols import Partition

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

HANDLERS = """
import asyncio
import os
import threading
import time

met = threading.Barrier(4, timeout=20)
met_async = None

def handle(record, context):
    with open("calls", "a") as calls:
        calls.write(f"{record.partition} {(record.key or b'-').decode()} {record.offset}\\n")
    verb = (record.value or b"").decode()
    if verb == "meet":
        met.wait()
    if verb == "slow":
        time.sleep(0.02)
    if verb == "long":
        time.sleep(0.5)
    if verb == "stall":
        time.sleep(60)
    if verb == "exit":
        time.sleep(0.3)
        os._exit(3)
    if verb == "raise":
        raise ValueError
    if verb == "memory":
        raise MemoryError
    context.send("out", record.value)

async def handle_async(record, context):
    global met_async
    verb = record.value.decode()
    if verb == "meet":
        met_async = met_async or asyncio.Barrier(4)
        async with asyncio.timeout(20):
            await met_async.wait()
    if verb == "stall":
        await asyncio.sleep(60)
    if verb == "block":
        time.sleep(60)
    context.send("out", record.value)
"""


def test_records_of_several_partitions_are_handled_at_a_time(tmp_path: Path) -> None:
    """With order by partition, one record of each."""
    with handling(tmp_path, slots=4) as found:
        ended = outcomes(found, *(rows([b"meet"] * 2, partition=number) for number in range(4)))

    assert set(ended.values()) == {"ok"}
    assert len(ended) == 8


def test_records_of_several_keys_are_handled_at_a_time(tmp_path: Path) -> None:
    """Also those of one partition."""
    with handling(tmp_path, slots=4, ordering="key") as found:
        ended = outcomes(found, rows([b"meet"] * 8, keys=[b"%d" % (n % 4) for n in range(8)]))

    assert set(ended.values()) == {"ok"}


def test_coroutines_run_at_a_time(tmp_path: Path) -> None:
    """In one event loop."""
    with handling(tmp_path, "handle_async", slots=4, ordering="unordered") as found:
        ended = outcomes(found, rows([b"meet"] * 8))

    assert set(ended.values()) == {"ok"}


@pytest.mark.parametrize("ordering", ["partition", "key"])
def test_the_order_is_kept(tmp_path: Path, ordering: str) -> None:
    """Records of a partition, or of a key in it, are handled one after the other."""
    values = [b"slow" if n % 7 == 0 else b"ok" for n in range(120)]
    with handling(tmp_path, slots=8, ordering=ordering) as found:
        parts = [rows(values, partition=number, keys=[b"%d" % (n % 5) for n in range(120)]) for number in range(3)]
        ended = outcomes(found, *parts)

    assert set(ended.values()) == {"ok"}
    assert len(ended) == 360
    called: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for partition, key, offset in calls(tmp_path):
        called[(partition, key) if ordering == "key" else (partition,)].append(int(offset))
    assert all(offsets == sorted(offsets) for offsets in called.values())


def test_only_the_record_that_kills_the_process_fails(tmp_path: Path) -> None:
    """Those that were being handled with it are handled again, and end as without it."""
    values = [b"ok", b"long", b"exit", b"long", b"raise", b"ok"]
    with handling(tmp_path, slots=4, ordering="unordered") as found:
        ended = outcomes(found, rows(values))

    assert list(ended.values()) == ["ok", "ok", "died", "ok", "raised", "ok"]


def test_the_order_is_kept_when_the_process_dies(tmp_path: Path) -> None:
    """Records whose outcomes were lost come before those behind them."""
    values = [b"exit" if n == 10 else b"slow" for n in range(20)]
    with handling(tmp_path, slots=4) as found:
        ended = outcomes(found, *(rows(values, partition=number) for number in range(2)))

    assert Counter(ended.values()) == {"ok": 38, "died": 2}
    last: dict[str, int] = {}
    for partition, _, offset in calls(tmp_path):
        assert int(offset) <= last.get(partition, -1) + 1, "a record was left out"
        last[partition] = int(offset)


def test_a_missed_deadline_fails_one_record(tmp_path: Path) -> None:
    """The others that were being handled are handled again."""
    with handling(tmp_path, slots=3, ordering="unordered", deadline="6s") as found:
        ended = outcomes(found, rows([b"ok", b"stall", b"long", b"ok"]))

    assert list(ended.values()) == ["ok", "deadline", "ok", "ok"]


@pytest.mark.parametrize("verb", [b"stall", b"block"])
def test_a_coroutine_that_misses_its_deadline_fails(tmp_path: Path, verb: bytes) -> None:
    """It is cancelled; if it blocks the event loop, its process is killed."""
    with handling(tmp_path, "handle_async", slots=3, ordering="unordered", deadline="1s") as found:
        ended = outcomes(found, rows([b"ok", verb, b"ok", b"ok"]))

    assert list(ended.values()) == ["ok", "deadline", "ok", "ok"]


def test_with_isolation_a_record_kills_only_its_own_process(tmp_path: Path) -> None:
    """No other record is handled again."""
    with handling(tmp_path, slots=3, ordering="unordered", isolation="process", deadline="5s") as found:
        ended = outcomes(found, rows([b"long", b"exit", b"long", b"ok", b"stall"]))

    assert list(ended.values()) == ["ok", "died", "ok", "ok", "deadline"]
    assert Counter(calls(tmp_path)).most_common(1)[0][1] == 1


def test_no_record_is_handled_after_a_critical_failure(tmp_path: Path) -> None:
    """The process ends."""
    with handling(tmp_path, slots=2) as found:
        last = [*found.handle(rows([b"memory", *[b"ok"] * 50])), *found.collect(20.0)][-1]

        assert last.outcomes.critical
        assert found._child is None


@pytest.fixture(scope="module")
def two_slots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Handling]:
    """A process with two slots, and room for 40 records."""
    with handling(tmp_path_factory.mktemp("two"), slots=2, limits={"bufferRecords": 40}) as found:
        yield found


def test_answers_of_an_abandoned_task_are_dropped(two_slots: Handling) -> None:
    """The next task gets the outcomes of its own records only."""
    list(two_slots.handle(rows([b"raise"] * 30)))
    two_slots.abandon()

    ended = outcomes(two_slots, rows([b"ok"] * 30))

    assert list(ended.values()) == ["ok"] * 30


def test_bad_headers_are_found(two_slots: Handling) -> None:
    """Lanes measure headers before a slot reads them."""
    ended = outcomes(two_slots, rows([b"ok", b"ok"], headers=[[{"key": "\ufffd", "value": b""}], None]))

    assert list(ended.values()) == ["bad_headers", "ok"]


def test_it_is_full_with_as_many_records_as_the_buffer_has(two_slots: Handling) -> None:
    """A task then waits for outcomes before it reads on."""
    list(two_slots.handle(rows([b"long", *[b"ok"] * 40])))

    assert two_slots.full

    outcomes(two_slots)

    assert not two_slots.full


@contextmanager
def handling(
    folder: Path, name: str = "handle", *, limits: Mapping[str, object] | None = None, **handler: object
) -> Iterator[Handling]:
    """Start the process of one of the handlers, in its folder."""
    source = HANDLERS.replace('"calls"', repr(str(folder / "calls")))
    (folder / "slot_handlers.py").write_text(source, encoding="utf-8")
    settings = {
        "group": "g",
        "kafka": {"bootstrap.servers": "nowhere", "log_level": 0},
        "sources": [{"topic": "t"}],
        "outputs": [{"topic": "out"}],
        "handler": {"callable": f"slot_handlers:{name}", **handler},
        "limits": limits or {},
    }
    config = HandlerConfig(load_settings(json.dumps(settings)), folder, (*sys.path, str(folder)), 30, TEXT)
    found = Handling(config)
    try:
        yield found
    finally:
        found.close()


def rows(
    values: Sequence[bytes], *, partition: int = 0, keys: Sequence[bytes] = (), headers: Sequence[object] = ()
) -> Rows:
    """Records of one partition."""
    count = len(values)
    columns: list[Any] = [
        keys or [None] * count, values, headers or [None] * count, ["t"] * count, [partition] * count, range(count),
        [0] * count,
    ]  # fmt: skip
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return Rows(Partition("t", partition), pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))


def outcomes(found: Handling, *parts: Rows) -> dict[tuple[int, int], str]:
    """The outcome of each record, by partition and offset. Each has one."""
    ended: dict[tuple[int, int], str] = {}

    def add(results: Iterator[Handled]) -> None:
        for handled in results:
            failures = dict(handled.outcomes.failures)
            assert sum(each.table.num_rows for each in handled.outcomes.emitted) == len(handled.records) - len(failures)
            for index, record in enumerate(handled.records):
                place = (record.partition(), record.offset())
                assert place not in ended
                ended[place] = str(failures[index].kind) if index in failures else "ok"

    for part in parts:
        add(found.handle(part))
    end_s = monotonic_s() + 60
    while found._records and monotonic_s() < end_s:
        add(found.collect(0.2))
    return dict(sorted(ended.items()))


def calls(folder: Path) -> list[tuple[str, str, str]]:
    """Partition, key and offset of each call of the handler, in order."""
    lines = (folder / "calls").read_text(encoding="utf-8").splitlines()
    return [(partition, key, offset) for partition, key, offset in map(str.split, lines)]
