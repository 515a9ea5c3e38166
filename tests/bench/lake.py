"""Measures archive and report of many dead letters: ``python -m tests.bench.lake DIR`` prints a line for each step.

The steps ``generate``, ``archive``, ``compact`` and ``report`` keep their data in DIR, so each can run by itself. The
result of each step is compared with the generated letters.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_redelivery.topology.policy.decision import DeadLetter, Failure, FailureKind, Reason
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import dead_letter_headers
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.pipeline.delta_table import files as files_of

ORIGINS: Final = 200
PARTITIONS: Final = 2
_FIRST_MS: Final = 1_767_225_600_000
_DAYS: Final = 14
_DAY_MS: Final = 86_400_000
_SEED: Final = 7

_FAILURES: Final[tuple[tuple[Reason, str, Callable[[random.Random], str]], ...]] = (
    (Reason.REDELIVERIES_EXCEEDED, "TimeoutError", lambda draw: f"no answer after {draw.randint(900, 30_000)} ms"),
    (Reason.REDELIVERIES_EXCEEDED, "KeyError", lambda draw: f"'{draw.randbytes(4).hex()}'"),
    (Reason.REDELIVERIES_EXCEEDED, "HTTPError", lambda draw: f"503 for /v1/orders/{draw.randint(1, 10**9)}/items"),
    (Reason.REDELIVERIES_EXCEEDED, "IntegrityError", lambda draw: f'duplicate key "{draw.randint(1, 10**6)}"'),
    (Reason.REJECTED, "Reject", lambda draw: f"amount {draw.randint(1, 10**6) / 100} exceeds the limit"),
    (Reason.REJECTED, "ValidationError", lambda draw: f"field f{draw.randint(1, 40)} is missing"),
    (Reason.UNDECODABLE, "DecodeError", lambda draw: f"Expecting value: line 1 column {draw.randint(1, 400)}"),
    (Reason.EXPIRED, "", lambda _: ""),
)
_WEIGHTS: Final = (30, 18, 15, 9, 12, 8, 6, 2)


def main() -> None:
    """Run the selected steps."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.lake")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--letters", type=int, default=1_000_000)
    parser.add_argument("--memory", default="4g")
    parser.add_argument("--spark", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--steps", nargs="+", default=["generate", "archive", "compact", "report"])
    options = parser.parse_args()
    directory: Path = options.directory
    directory.mkdir(parents=True, exist_ok=True)
    with EmbeddedKafka(data_dir=directory / "kafka", properties={"log.retention.ms": "-1"}, heap_mb=1024) as broker:
        _configure(directory, broker.bootstrap_servers)
        for step in options.steps:
            began = monotonic()
            if step == "generate":
                _generate(directory, broker.bootstrap_servers, options.letters)
            else:
                _run(directory, step, [f"spark.driver.memory={options.memory}", *options.spark])
            took_s = monotonic() - began
            most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
            found = _compared(directory, step)
            print(f"{step}: {took_s:.1f} s; largest process so far {most} MiB; {found}", flush=True)  # noqa: T201


def _configure(directory: Path, servers: str) -> None:
    document = {
        "group": "billing",
        "kafka": {"bootstrap.servers": servers},
        "sources": [{"topic": _origin(number), "value": {"format": "json"}} for number in range(ORIGINS)],
        "policyEntry": {"deadLetterStrategy": {"kind": "shared"}},
    }
    (directory / "redelivery.yaml").write_text(json.dumps(document), encoding="utf-8")


def _generate(directory: Path, servers: str, letters: int) -> None:
    topic = NewTopic("ActiveMQ.DLQ", PARTITIONS, 1, config={"retention.ms": "-1"})
    client = AdminClient({"bootstrap.servers": servers})
    client.create_topics([topic])["ActiveMQ.DLQ"].result(30)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "compression.type": "lz4"})
    truth: Counter[tuple[str, str]] = Counter()
    for number, (kind, headers, key, value, at_ms) in enumerate(_letters(letters)):
        truth[kind] += 1
        producer.produce("ActiveMQ.DLQ", value, key, number % PARTITIONS, timestamp=at_ms, headers=[*headers])
        if not number % 10_000:
            producer.poll(0)
            while len(producer) > 50_000:
                producer.poll(0.1)
    if producer.flush(60):
        raise SystemExit("Kafka did not acknowledge all letters")
    document = [[*kind, number] for kind, number in truth.items()]
    (directory / "truth.json").write_text(json.dumps(document), encoding="utf-8")


def _letters(number: int) -> Iterator[tuple[tuple[str, str], list[tuple[str, bytes | None]], bytes, bytes, int]]:
    """Yield the letters, each with its origin and reason."""
    draw = random.Random(_SEED)  # noqa: S311 - the same letters each time
    kinds = draw.choices(range(len(_FAILURES)), _WEIGHTS, k=number)
    for index, kind in enumerate(kinds):
        reason, exception, message = _FAILURES[kind]
        at_ms = _FIRST_MS + index * _DAYS * _DAY_MS // number
        # A few sources make most of the letters, as in practice.
        origin = _origin(min(int(draw.paretovariate(0.7)) - 1, ORIGINS - 1))
        lineage = Lineage(origin, index % PARTITIONS, index, at_ms - draw.randint(1000, 900_000), 1 + 5 * (kind < 4))
        failure = Failure(FailureKind.RAISED, exception, message(draw))
        headers = dead_letter_headers(
            lineage, "billing", [("traceparent", b"00-%032x-01" % index)], DeadLetter(reason, failure), at_ms
        )
        value = b'{"id":%d,"amount":%d,"note":"%s"}' % (
            index,
            draw.randint(1, 10**6),
            draw.randbytes(100).hex().encode(),
        )
        yield (origin, str(reason)), headers, b"customer-%d" % draw.randint(1, 50_000), value, at_ms


def _origin(number: int) -> str:
    return f"shop.orders.{number:03}"


def _run(directory: Path, step: str, spark: list[str]) -> None:
    table = str(directory / "table")
    arguments = {
        "archive": ["archive", "--output", table],
        "compact": ["archive", "--output", table, "--compact"],
        "report": ["report", "--output", str(directory / "report"), "--archive", table],
    }[step]
    command = [sys.executable, "-c", "from kafka_redelivery.cli.main import app; app()", "pipeline", *arguments]
    options = ["--config", str(directory / "redelivery.yaml")]
    for setting in ("spark.master=local[2]", *spark):
        options += ["--spark", setting]
    subprocess.run([*command, *options], check=True)


def _compared(directory: Path, step: str) -> str:
    """Compare the result of a step with the generated letters and describe it.

    Raises:
        SystemExit: the result differs from the generated letters.
    """
    truth = {(origin, reason): number for origin, reason, number in json.loads((directory / "truth.json").read_text())}
    letters = sum(truth.values())
    if step == "generate":
        return f"{letters} letters"
    if step == "report":
        for column, position in (("origin", 0), ("reason", 1)):
            wanted: Counter[str] = Counter()
            for kind, number in truth.items():
                wanted[kind[position]] += number
            table = pq.read_table(directory / "report" / f"by_{column}").to_pydict()
            if dict(zip(table[column], table["letters"], strict=True)) != wanted:
                raise SystemExit(f"the report's letters by {column} differ from the generated ones")
        return f"{letters} letters by origin and by reason"
    files = files_of(directory / "table")
    rows = pa.concat_tables(pq.read_table(file, columns=["topic", "partition", "offset"]) for file in files)
    distinct = rows.group_by(["topic", "partition", "offset"]).aggregate([]).num_rows
    if (rows.num_rows, distinct) != (letters, letters):
        raise SystemExit(f"{letters} letters became {rows.num_rows} rows of {distinct} distinct letters")
    size = sum(file.stat().st_size for file in files) // 2**20
    return f"{rows.num_rows} rows, each of another letter, in {len(files)} files of {size} MiB"


if __name__ == "__main__":
    main()
