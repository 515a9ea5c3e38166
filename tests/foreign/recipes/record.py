"""Records what Spring Kafka, Kafka Connect and Kafka Streams write as dead letters; see README.md beside this file."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from kafka_redelivery.transport.broker.jars import kafka_jars, lock
from kafka_redelivery.transport.broker.java import find_java
from tests.scenarios.cluster import Cluster, Sent
from tests.scenarios.waiting import until

HERE = Path(__file__).parent
RECORDINGS = HERE.parent / "recordings"

_SPRING = "4.1.1"
_KAFKA = "4.3.1"
_AT_MS = 1_700_000_000_000
_USER = ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a system is made to write dead letters."""

    roots: tuple[str, ...]
    inputs: dict[str, list[Sent]]
    """The records of each topic; all have three partitions."""

    letters: dict[str, int]
    """How many dead letters appear in which topics."""

    others: tuple[str, ...] = ()
    """Further topics that the system needs."""


def _numbered(*values: bytes | None) -> list[Sent]:
    """Make a record of each value, with a key, a header of the user and a time of its own."""
    return [
        Sent(value, b"k%d" % number, [_USER, ("empty", None), ("binary", b"\x00\xff")], number % 3, _AT_MS + number)
        for number, value in enumerate(values)
    ]


_AGAIN = Sent(b"died again", b"k9", [_USER, ("redrive", b"3f9a2c01bd/1@7/1")], 1, _AT_MS + 9)

RECIPES = {
    "spring": Recipe(
        roots=(f"org.springframework.kafka:spring-kafka:{_SPRING}", "org.slf4j:slf4j-simple:2.0.17"),
        inputs={
            "orders": [*_numbered(b"bank", b"cause", b"no message", b"umlaut", None), _AGAIN],
            "numbers": _numbered(b"not four bytes", b"neither"),
            "payments": [*_numbered(b"bank", b"cause"), _AGAIN],
        },
        letters={"orders-dlt": 6, "numbers-dlt": 2, "payments-dlt": 3},
    ),
    "connect": Recipe(
        roots=(
            *(f"org.apache.kafka:connect-{name}:{_KAFKA}" for name in ("runtime", "file", "json", "transforms")),
            "org.slf4j:slf4j-simple:1.7.36",
        ),
        inputs={
            "orders": [
                *_numbered(b'{"amount": "12"}', b"no json", b'{"amount": "twelve"}', b'{"amount": ', None),
                Sent(b'{"amount": {}}', None, [_USER], 2, _AT_MS + 8),
            ]
        },
        letters={"orders-dlq": 4},
    ),
    "streams": Recipe(
        roots=(f"org.apache.kafka:kafka-streams:{_KAFKA}", "org.slf4j:slf4j-simple:1.7.36"),
        inputs={
            "amounts": [
                *_numbered(b"\x00\x00\x00\x07", b"not four bytes", b"\xff\xff\xff\xfe", b"\x00"),
                Sent(b"no key", None, [_USER], 2, _AT_MS + 8),
            ]
        },
        letters={"totals-dlq": 4},
        others=("totals",),
    ),
}


@contextmanager
def running(command: Sequence[str | Path], log: Path) -> Iterator[None]:
    """Run the program of a system."""
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield
        finally:
            process.terminate()


def command(system: str, servers: str, folder: Path) -> list[str | Path]:
    """Return the command that runs a system; ``folder`` gets its files."""
    jars = ":".join(str(jar) for jar in kafka_jars(lock_file=HERE / f"{system}_jars.txt", what=system))
    java: list[str | Path] = [find_java(), "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", jars]
    if system != "connect":
        return [*java, HERE / f"{system.capitalize()}DeadLetters.java", servers]
    worker = (HERE / "connect-worker.properties").read_text(encoding="utf-8")
    connector = (HERE / "connect-sink.properties").read_text(encoding="utf-8")
    (folder / "worker").write_text(
        f"{worker}bootstrap.servers={servers}\noffset.storage.file.filename={folder}/offsets\n", encoding="utf-8"
    )
    (folder / "sink").write_text(f"{connector}file={folder}/output\n", encoding="utf-8")
    return [*java, "org.apache.kafka.connect.cli.ConnectStandalone", folder / "worker", folder / "sink"]


def record(system: str) -> None:
    """Run a system on a real broker and write what it makes of the inputs, byte for byte."""
    recipe = RECIPES[system]
    with EmbeddedKafka() as kafka, tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(kafka.bootstrap_servers)
        cluster.create(*recipe.inputs, *recipe.letters, *recipe.others, partitions=3, config={"retention.ms": "-1"})
        for topic, records in recipe.inputs.items():
            cluster.produce(topic, records)
        log = Path(folder) / "log"
        try:
            with running(command(system, kafka.bootstrap_servers, Path(folder)), log):
                for topic, number in recipe.letters.items():
                    until(lambda: len(cluster.read(topic)) >= number, f"{number} dead letters in {topic}", within_s=90)  # noqa: B023
        except BaseException:
            sys.stderr.write(log.read_text(encoding="utf-8", errors="replace"))
            raise
        topics = (*recipe.inputs, *recipe.letters)
        seen = [
            {
                "topic": each.topic,
                "partition": each.partition,
                "offset": each.offset,
                "timestampMs": each.timestamp_ms,
                "key": _base64(each.key),
                "value": _base64(each.value),
                "headers": [[name, _base64(value)] for name, value in each.headers],
            }
            for each in sorted(cluster.read(*topics), key=lambda each: (each.topic, each.partition, each.offset))
        ]
    document = {"versions": recipe.roots, "records": seen}
    file = RECORDINGS / f"{system}.json"
    file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{file}: {len(seen)} records\n")


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def main(arguments: Sequence[str]) -> None:
    """Record the systems that are named, or with ``lock`` first pin the newest jars of their versions."""
    for system in [each for each in arguments if each != "lock"] or RECIPES:
        if "lock" in arguments:
            roots = RECIPES[system].roots
            lock(HERE / f"{system}_jars.txt", roots, f"{', '.join(roots)}; written by record.py lock {system}")
        record(system)


if __name__ == "__main__":
    main(sys.argv[1:])
