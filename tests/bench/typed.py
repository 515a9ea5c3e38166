"""Typed: W0 with handlers that take JSON as a dict, a dataclass, a pydantic model, a TypedDict and a msgspec struct.

The workers take turns on the same records.
"""

import json
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any, Final

from confluent_kafka import Producer

from kafka_redelivery.transport.client_config import producer_config
from tests.bench import w0
from tests.bench.bed import Bed
from tests.bench.options import Options
from tests.bench.result import Baseline, Result

_JSON: Final = "PassesJson"
HANDLERS: Final[Mapping[str, str]] = {
    _JSON: "JSON as a dict",
    "PassesDataclass": "dataclass",
    "PassesModel": "pydantic model",
    "PassesTypedDict": "TypedDict",
    "PassesStruct": "msgspec struct",
}


def order_as_json(number: int, size: int) -> bytes:
    """Return an order of ``size`` bytes, or as many as it needs."""
    order = {
        "n": number,
        "customer": f"customer {number % 1000}",
        "amount": f"{number % 10_000}.50",
        "at": "2026-11-28T23:30:00Z",
        "lines": [{"sku": f"sku-{number % 77}", "number": 1}, {"sku": "sku-1", "number": number % 7}],
    }
    short = len(json.dumps(order | {"note": ""}))
    return json.dumps(order | {"note": "x" * max(0, size - short)}).encode()


def run(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield a result for each type, compared with JSON as a dict."""
    n = options.n or 100_000
    source = bed.topic("source", options.partitions)
    bed.report_progress(f"writing {n:,} orders")
    _feed(bed.servers, source, n, options)
    runs: dict[str, list[dict[str, Any]]] = {handler: [] for handler in HANDLERS}
    sources = [{"topic": source, "value": {"format": "json"}}]
    for turn in range(options.repeat):
        for handler, found in runs.items():
            bed.report_progress(f"{HANDLERS[handler]}, {turn + 1} of {options.repeat}")
            found.append(
                w0.measured_worker(bed, n, source, options, f"typed_handlers:{handler}", {"n": n}, sources=sources)
            )
    rates = {handler: median(run["records_per_s"] for run in found) for handler, found in runs.items()}
    for handler, found in runs.items():
        yield Result(
            workload="typed",
            mode=options.mode,
            params={
                "n": n,
                "value": HANDLERS[handler],
                **options.params("value_bytes", "partitions", "slots", "repeat"),
            },
            records_per_s=round(rates[handler]),
            baseline=Baseline(name=HANDLERS[_JSON], records_per_s=round(rates[_JSON])),
            ratio=round(rates[handler] / rates[_JSON], 3),
            lost=sum(run["lost"] for run in found),
            doubled=sum(run["doubled"] for run in found),
            rss_worker_mb=max(run["rss_mb"] for run in found),
            cpu_us_per_record=round(median(run["cpu_us"] for run in found), 1),
            seconds=round(n / rates[handler], 3),
            details={
                "worker_cpu_us_per_record": round(median(run["worker_cpu_us"] for run in found), 1),
                "runs": [round(run["records_per_s"]) for run in found],
            },
        )


def _feed(servers: str, topic: str, n: int, options: Options) -> None:
    producer = Producer(
        producer_config({"bootstrap.servers": servers, "linger.ms": 5, "log_level": 3}, transactional_id=None)
    )
    for number in range(n):
        while True:
            try:
                producer.produce(topic, order_as_json(number, options.value_bytes), b"k%d" % (number % options.keys))
            except BufferError:
                producer.poll(0.1)
            else:
                break
        if number % 1000 == 0:
            producer.poll(0)
    if producer.flush(60):
        raise RuntimeError(f"{topic} could not be written")
