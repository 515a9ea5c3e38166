"""Dead letters: listing them, and sending them again, beside a bare transactional copy in chunks of the same size."""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from threading import Event
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from kafka_redelivery.dead_letters.creation import create
from kafka_redelivery.dead_letters.jobs import OpenJob
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.reading import no_progress
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.policy.decision import DeadLetter, Failure, FailureKind, Reason
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.redrive.job import CHUNK, JobOptions
from kafka_redelivery.topology.wire.headers import dead_letter_headers
from kafka_redelivery.transport.client_config import consumer_config, producer_config
from tests.bench.bed import Bed, Team
from tests.bench.drained import Counted, numbers_in
from tests.bench.feed import Values
from tests.bench.options import Options
from tests.bench.result import Baseline, Result
from tests.bench.usage import usage
from tests.scenarios.redriving import previewed
from tests.scenarios.running import COMMAND, Process

RATE = 2000
"""Letters per second of the run with a rate."""

_WITHIN_S = 300.0
_TRANSACTION_MS = 100
"""Longer than it takes to produce the letters of one transaction, shorter than the time between two."""


def run(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield one result."""
    n = options.n or (5_000 if options.quick else 100_000)
    turns, listed, counted = [], [], []
    for turn in range(options.repeat):
        with _letters(bed, n, options) as team:
            bed.report_progress(f"listing, {turn + 1} of {options.repeat}")
            listed.append(_list_s(team, n))
            bed.report_progress(f"sending, {turn + 1} of {options.repeat}")
            sent = bed.act("redrive:send", file=str(team.file), rate=None)
            counted.append(numbers_in(bed, team.ready, n))
            bed.report_progress(f"bare copy, {turn + 1} of {options.repeat}")
            target = bed.topic("bare-letters", options.partitions)
            copied = bed.act("redrive:copy", source=team.dead_letters, target=target, partitions=options.partitions)
            turns.append((sent, copied))
    held, held_counted = _held(bed, options)
    rate, limit = (median(n / each[which]["seconds"] for each in turns) for which in (0, 1))
    yield Result(
        workload="redrive",
        mode="transacted",
        params={"n": n, "rate": RATE, **options.params("value_bytes", "keys", "partitions", "repeat")},
        records_per_s=round(rate),
        baseline=Baseline(name=f"txcopy, chunks of {CHUNK}", records_per_s=round(limit)),
        ratio=round(median(copied["seconds"] / sent["seconds"] for sent, copied in turns), 3),
        lost=sum(each.lost for each in (*counted, held_counted)),
        doubled=sum(each.doubled for each in (*counted, held_counted)),
        cpu_us_per_record=round(median(sent["cpu_s"] for sent, _ in turns) * 1e6 / n, 1),
        seconds=round(n / rate, 3),
        details={
            "list_s": [round(each, 2) for each in listed],
            "preview_s": [round(sent["preview_s"], 2) for sent, _ in turns],
            "create_s": [round(sent["create_s"], 2) for sent, _ in turns],
            "runs": [round(n / sent["seconds"]) for sent, _ in turns],
            "baseline_runs": [round(n / copied["seconds"]) for _, copied in turns],
            "baseline_cpu_us": round(median(copied["cpu_s"] for _, copied in turns) * 1e6 / n, 1),
            "rss_mb": max(sent["rss_mb"] for sent, _ in turns),
            **held,
        },
    )


@contextmanager
def _letters(bed: Bed, n: int, options: Options) -> Iterator[Team]:
    """Create a group with ``n`` dead letters, whose values begin with their numbers."""
    bed.report_progress(f"writing {n:,} dead letters")
    source = bed.topic("source", options.partitions)
    failure = Failure(FailureKind.RAISED, "ConnectionError", "the bank does not answer: connection refused")
    decision = DeadLetter(Reason.REDELIVERIES_EXCEEDED, failure)
    values, now_ms = Values(options.value_bytes), time.time_ns() // 1_000_000
    with bed.team(source, "Passes", options, parameters={"n": n}) as team:
        producer = Producer(producer_config({"bootstrap.servers": bed.servers}, transactional_id=None))
        for number in range(n):
            partition, offset = number % options.partitions, number // options.partitions
            lineage = Lineage(source, partition, offset, now_ms, deliveries=4)
            headers = dead_letter_headers(lineage, team.name, [], decision, now_ms)
            key = b"k%d" % (number % options.keys)
            producer.produce(team.dead_letters, values.value(number), key, partition, headers=list(headers))
            producer.poll(0)
        if producer.flush(60):
            raise RuntimeError("the dead letters could not be written")
        yield team


def _list_s(team: Team, n: int) -> float:
    """Return how long `redelivery dlq list` takes, from its start to its end."""
    log = team.folder / "list.json"
    began_s = time.monotonic()
    command = [*COMMAND, "dlq", "list", "--json", "--config", str(team.file)]
    process = Process("list", command, os.environ, log)
    team.processes.append(process)
    code = process.wait(_WITHIN_S)
    seconds = time.monotonic() - began_s
    if code or json.loads(process.log)["letters"] != n:
        raise RuntimeError(f"redelivery dlq list ended with {code}:\n{process.log[-3000:]}")
    return seconds


def _held(bed: Bed, options: Options) -> tuple[dict[str, Any], Counted]:
    """Send with a rate; return the rate between the first and the last transaction, and within it by second."""
    n = int(RATE * options.seconds)
    with _letters(bed, n, options) as team:
        bed.report_progress(f"sending {n:,} at {RATE:,} per second")
        bed.act("redrive:send", file=str(team.file), rate=RATE)
        counted = numbers_in(bed, team.ready, n)
        times_ms = sorted(record.timestamp_ms for record in bed.cluster.read(team.ready))
    # The letters of the last transaction are sent at its beginning, so they are not part of the time before it.
    first_ms, last_ms = times_ms[0], times_ms[-1]
    before = sum(each < last_ms - _TRANSACTION_MS for each in times_ms)
    by_second = Counter((each - first_ms) // 1000 for each in times_ms)
    whole = [by_second[second] for second in range((last_ms - first_ms) // 1000)]
    return {
        "rate_held": round(before / (last_ms - first_ms) * 1000, 1),
        "by_second": {"least": min(whole, default=0), "most": max(whole, default=0)},
    }, counted


def send(servers: str, file: str, rate: float | None) -> dict[str, Any]:  # noqa: ARG001 - given to every actor
    """Do what ``redelivery dlq redrive --yes`` does, and measure its parts."""
    settings = load_settings(Path(file).read_text(encoding="utf-8"))
    began_s = time.monotonic()
    options = JobOptions(group=settings.group, rate=rate)
    with previewed(settings, options) as (index, chosen):
        chosen_s = time.monotonic()
        ledger = Ledger(settings)
        job = create(ledger, index, chosen)
    created_s, cpu_s = time.monotonic(), time.process_time()
    assert OpenJob(settings, ledger, job.id).run(Event(), no_progress)
    return {
        "preview_s": chosen_s - began_s,
        "create_s": created_s - chosen_s,
        "seconds": time.monotonic() - created_s,
        "cpu_s": time.process_time() - cpu_s,
        "rss_mb": usage(os.getpid()).rss_peak_mb,
    }


def copy(servers: str, source: str, target: str, partitions: int) -> dict[str, Any]:
    """Copy a topic, partition by partition, in transactions of :data:`CHUNK` records and the offset behind them."""
    began_s, cpu_s = time.monotonic(), time.process_time()
    name = f"bare-{time.time_ns()}"
    kafka: dict[str, str | int | float | bool] = {"bootstrap.servers": servers, "log_level": 3}
    consumer = Consumer(consumer_config(kafka, group=name, instance=None))
    producer = Producer(producer_config(kafka, transactional_id=name))
    producer.init_transactions(60)
    for number in range(partitions):
        here = TopicPartition(source, number, 0)
        _, end = consumer.get_watermark_offsets(here, 30)
        consumer.assign([here])
        done = 0
        while done < end:
            messages = [each for each in consumer.consume(CHUNK, 0.05) if each.error() is None]
            if not messages:
                continue
            done = (messages[-1].offset() or 0) + 1
            producer.begin_transaction()
            for each in messages:
                producer.produce(target, each.value(), each.key(), number, headers=each.headers() or [])
            offsets = [TopicPartition(source, number, done)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
            producer.commit_transaction()
    result = {"seconds": time.monotonic() - began_s, "cpu_s": time.process_time() - cpu_s}
    consumer.close()
    return result
