"""The index of dead letters: its first build beside a bare reader of the same letters, and what it answers."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from statistics import median
from threading import Event
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.dead_letters.jobs import OpenJob
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.letter import By
from kafka_redelivery.dead_letters.reading import no_progress
from kafka_redelivery.serdes.avro import AvroCodec
from kafka_redelivery.serdes.schemas import LocalSchemas
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.policy.decision import DeadLetter, Failure, FailureKind, Reason
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.redrive.job import JobOptions, JobSpec, SliceId, job_records
from kafka_redelivery.topology.redrive.offset_set import OffsetSet
from kafka_redelivery.topology.wire.headers import dead_letter_headers
from kafka_redelivery.transport.client_config import consumer_config, producer_config
from tests.bench.bed import Bed, Team
from tests.bench.feed import Values
from tests.bench.options import Options
from tests.bench.result import Baseline, Result
from tests.bench.usage import usage
from tests.scenarios.running import COMMAND, Process

ADDED = 1_000
"""Letters of the second refresh."""

_TIMES = 5
_WITHIN_S = 300.0
_EACH_OF_A_JOB = 10
"""Every tenth letter is set aside by a job, so that states are not all the same."""

_SCHEMA_ID = 7
_SCHEMA_FILE = "order.avsc"
_SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "order", "type": "long"}, {"name": "note", "type": "string"}],
}

_FAILURES = (
    ("ConnectionError", "the bank does not answer: connection refused"),
    ("KeyError", "order {number} has no 'iban'"),
    ("ValueError", "amount {number}.50 is more than the limit of account {number}"),
)


def run(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield one result."""
    n = options.n or (20_000 if options.quick else 1_000_000)
    source = bed.topic("source", options.partitions)
    with bed.team(source, "Passes", options, parameters={"n": n}, **sources_of(source, options)) as team:
        bed.report_progress(f"writing {n:,} dead letters")
        write_letters(team, range(n), options)
        set_aside(team, n, options)
        built, read = [], []
        for turn in range(options.repeat):
            bed.report_progress(f"building, {turn + 1} of {options.repeat}")
            built.append(bed.act("index:build", file=str(team.file), folder=str(team.folder / f"index-{turn}")))
            bed.report_progress(f"bare reader, {turn + 1} of {options.repeat}")
            read.append(bed.act("index:read", topic=team.dead_letters, partitions=options.partitions))
        bed.report_progress("asking")
        folder = str(team.folder / "index-0")
        asked = bed.act("index:ask", file=str(team.file), folder=folder)
        commands = {what: _command_s(team, what, folder, n) for what in ("list", "summary", "redrive --dry-run")}
        write_letters(team, range(n, n + ADDED), options)
        added = bed.act("index:build", file=str(team.file), folder=folder)
    rate, limit = (median(n / each["seconds"] for each in turns) for turns in (built, read))
    cpu_us = median(each["cpu_s"] for each in built) * 1e6 / n
    found = [*(each["letters"] for each in built), asked["letters"]]
    yield Result(
        workload="index",
        mode="transacted",
        params={"n": n, **options.params("value_bytes", "partitions", "repeat", "avro")},
        records_per_s=round(rate),
        baseline=Baseline(name="consume, all parts of each record", records_per_s=round(limit)),
        ratio=round(median(bare["seconds"] / ours["seconds"] for ours, bare in zip(built, read, strict=True)), 3),
        lost=sum(max(0, n - letters) for letters in found),
        doubled=sum(max(0, letters - n) for letters in found),
        cpu_us_per_record=round(cpu_us, 2),
        seconds=round(n / rate, 3),
        details={
            "per_core": round(1e6 / cpu_us),
            "baseline_cpu_us": round(median(each["cpu_s"] for each in read) * 1e6 / n, 2),
            "runs": [round(n / each["seconds"]) for each in built],
            "rss_mb": max(each["rss_mb"] for each in built),
            "disk_bytes_per_letter": round(built[0]["disk_bytes"] / n, 1),
            "asked_s": asked["seconds"],
            "asked_rss_mb": asked["rss_mb"],
            "commands_s": commands,
            f"refresh_of_{ADDED}_s": round(added["seconds"], 3),
        },
    )


def sources_of(source: str, options: Options) -> dict[str, Any]:
    """Return the section of the sources, if it is another one."""
    if not options.avro:
        return {}
    return {"sources": [{"topic": source, "value": {"format": "avro", "schemas": {_SCHEMA_ID: _SCHEMA_FILE}}}]}


def write_letters(team: Team, numbers: range, options: Options) -> None:
    """Write dead letters with these numbers."""
    (team.folder / _SCHEMA_FILE).write_text(json.dumps(_SCHEMA))
    codec = AvroCodec(LocalSchemas({_SCHEMA_ID: _SCHEMA}), write_id=_SCHEMA_ID)
    values, now_ms = Values(options.value_bytes), time.time_ns() // 1_000_000
    producer = Producer(producer_config({"bootstrap.servers": team.bed.servers}, transactional_id=None))
    for number in numbers:
        partition, offset = number % options.partitions, number // options.partitions
        exception, message = _FAILURES[number % len(_FAILURES)]
        failure = Failure(FailureKind.RAISED, exception, message.format(number=number))
        decision = DeadLetter(Reason.REDELIVERIES_EXCEEDED, failure)
        user = [("traceparent", b"00-%032x-%016x-01" % (number * 7919, number))]
        lineage = Lineage(team.source, partition, offset, now_ms, deliveries=4)
        headers = dead_letter_headers(lineage, team.name, user, decision, now_ms)
        order = {"order": number, "note": values.value(number).hex()[: options.value_bytes - 30]}
        value = codec.encode(order) if options.avro else json.dumps(order).encode()
        producer.produce(team.dead_letters, value, b"k%d" % (number % options.keys), partition, headers=list(headers))
        producer.poll(0)
    if producer.flush(60):
        raise RuntimeError("the dead letters could not be written")


def set_aside(team: Team, n: int, options: Options) -> None:
    """Let a job set every tenth letter aside."""
    ledger, name = Ledger(team.settings), "aside"
    letters = OffsetSet(range(0, n // options.partitions, _EACH_OF_A_JOB))
    slices = tuple(SliceId(team.dead_letters, partition) for partition in range(options.partitions))
    spec = JobSpec(
        job=name,
        at_ms=0,
        by="bench",
        seen=ledger.seen,
        options=JobOptions(group=team.name, discard=True),
        selection={},
        slices=slices,
    )
    ledger.append(name, job_records(spec, dict.fromkeys(slices, letters)))
    assert OpenJob(team.settings, ledger, name).run(Event(), no_progress)


def _command_s(team: Team, what: str, folder: str, n: int) -> float:
    """Return how long a command takes, from its start to its end, if the index is up to date."""
    log = team.folder / f"{what.partition(' ')[0]}.json"
    began_s = time.monotonic()
    options = ["--json", f"--set=deadLetters.index.path={folder}", "--config", str(team.file)]
    command = [*COMMAND, "dlq", *what.split(), *options]
    process = Process(what, command, os.environ, log)
    team.processes.append(process)
    code = process.wait(_WITHIN_S)
    seconds = time.monotonic() - began_s
    found: dict[str, Any] = {}
    with suppress(ValueError):
        found = json.loads(process.log[process.log.find("{") :])  # a slow machine reports its progress before it
    if code or found.get("letters", 0) + found.get("sentBefore", 0) != n:
        raise RuntimeError(f"redelivery dlq {what} ended with {code}:\n{process.log[-3000:]}")
    return round(seconds, 2)


def build(servers: str, file: str, folder: str) -> dict[str, Any]:  # noqa: ARG001 - given to every actor
    """Bring an index up to date, and measure it."""
    settings = load_settings(Path(file).read_text(encoding="utf-8"))
    began_s, cpu_s = time.monotonic(), time.process_time()
    with closing(Index.open(settings, path=Path(folder), base=Path(file).parent)) as index:
        index.refresh()
        done = {"seconds": time.monotonic() - began_s, "cpu_s": time.process_time() - cpu_s}
        ((letters,),) = index.rows("SELECT count(*) FROM letters")
        size = sum(each.stat().st_size for each in index.path.iterdir())
    return {**done, "letters": letters, "disk_bytes": size, "rss_mb": usage(os.getpid()).rss_peak_mb}


def ask(servers: str, file: str, folder: str) -> dict[str, Any]:  # noqa: ARG001 - given to every actor
    """Ask an index that is up to date, and measure the answers."""
    settings = load_settings(Path(file).read_text(encoding="utf-8"))
    with closing(Index.open(settings, path=Path(folder), base=Path(file).parent)) as index:
        questions: dict[str, Callable[[], object]] = {
            "refresh": index.refresh,
            "list": lambda: index.summary((By.ORIGIN, By.REASON, By.EXCEPTION, By.STATE)),
            "list_each": lambda: index.select(limit=1000),
            "summary": index.summary,
            "value": lambda: index.rows("SELECT count(*) FROM letters WHERE value ->> '$.order' = '4711'"),
        }
        seconds = {
            what: round(median(_timed(question) for _ in range(_TIMES)), 3) for what, question in questions.items()
        }
        letters = index.summary().letters
    return {"seconds": seconds, "letters": letters, "rss_mb": usage(os.getpid()).rss_peak_mb}


def _timed(question: Callable[[], object]) -> float:
    began_s = time.monotonic()
    question()
    return time.monotonic() - began_s


def read(servers: str, topic: str, partitions: int) -> dict[str, Any]:
    """Read a topic and touch each part of each record, as a program in Python has to."""
    kafka: dict[str, str | int | float | bool] = {"bootstrap.servers": servers, "log_level": 3}
    began_s, cpu_s = time.monotonic(), time.process_time()
    consumer = Consumer(consumer_config(kafka, group="bare", instance=None))
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    left = {
        number: consumer.get_watermark_offsets(TopicPartition(topic, number), 30)[1] for number in range(partitions)
    }
    while left:
        for message in consumer.consume(5_000, 0.1):
            if message.error() is None:
                parts = message.key(), message.value(), message.headers(), message.timestamp()
                assert parts
                if (message.offset() or 0) + 1 >= left.get(message.partition() or 0, 0):
                    left.pop(message.partition() or 0, None)
    found = {"seconds": time.monotonic() - began_s, "cpu_s": time.process_time() - cpu_s}
    consumer.close()
    return found
