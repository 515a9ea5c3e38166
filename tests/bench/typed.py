"""W0 with values that are decoded; the workers take turns on the same orders.

Typed: handlers that take JSON as a dict, a dataclass, a pydantic model, a TypedDict and a msgspec struct.
Codecs: JSON, and Avro, Protobuf and JSON Schema with their schemas in files.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any, Final

from confluent_kafka import Producer
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from kafka_redelivery.serdes.build import SerdeSettings, build_codec
from kafka_redelivery.transport.client_config import producer_config
from tests.bench import w0
from tests.bench.bed import Bed
from tests.bench.options import Options
from tests.bench.result import Baseline, Result

_TEXTS: Final = "customer", "amount", "at", "note"
HANDLERS: Final[Mapping[str, str]] = {
    "PassesJson": "JSON as a dict",
    "PassesDataclass": "dataclass",
    "PassesModel": "pydantic model",
    "PassesTypedDict": "TypedDict",
    "PassesStruct": "msgspec struct",
}


_ID: Final = 7
"""Of each schema."""


def run(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield a result for each type, compared with JSON as a dict."""
    n = options.n or 100_000
    source = _fed(bed, n, options, {"format": "json"})
    yield from _compared(bed, options, "typed", n, {each: (source, name) for name, each in HANDLERS.items()})


def run_codecs(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield a result for each format, compared with Avro."""
    n = options.n or 100_000
    files = {"avro": "order.avsc", "protobuf": "order.binpb", "jsonschema": "order.json"}
    for name, schema in zip(files.values(), (_avro(), _protobuf(), _json_schema()), strict=True):
        (bed.folder / name).write_bytes(schema)

    def serde(name: str) -> dict[str, Any]:
        return {"format": name, "schemas": {_ID: str(bed.folder / files[name])}}

    named: dict[str, tuple[dict[str, Any], str]] = {
        "Avro": (serde("avro"), "PassesJson"),
        "Protobuf": (serde("protobuf"), "PassesMessage"),
        "JSON Schema": (serde("jsonschema"), "PassesJson"),
        "JSON": ({"format": "json"}, "PassesJson"),
    }
    kinds = {name: (_fed(bed, n, options, value), handler) for name, (value, handler) in named.items()}
    yield from _compared(bed, options, "codecs", n, kinds)


def _compared(
    bed: Bed, options: Options, workload: str, n: int, kinds: Mapping[str, tuple[dict[str, Any], str]]
) -> Iterator[Result]:
    """Yield a result for each kind, a source and a handler, compared with the first."""
    runs: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
    for turn in range(options.repeat):
        for kind, (source, handler) in kinds.items():
            bed.report_progress(f"{kind}, {turn + 1} of {options.repeat}")
            program = f"typed_handlers:{handler}"
            topic = source["topic"]
            runs[kind].append(w0.measured_worker(bed, n, topic, options, program, {"n": n}, sources=[source]))
    rates = {kind: median(run["records_per_s"] for run in found) for kind, found in runs.items()}
    first = next(iter(rates))
    for kind, found in runs.items():
        yield Result(
            workload=workload,
            mode=options.mode,
            params={"n": n, "value": kind, **options.params("value_bytes", "partitions", "slots", "repeat")},
            records_per_s=round(rates[kind]),
            baseline=Baseline(name=first, records_per_s=round(rates[first])),
            ratio=round(rates[kind] / rates[first], 3),
            lost=sum(run["lost"] for run in found),
            doubled=sum(run["doubled"] for run in found),
            rss_worker_mb=max(run["rss_mb"] for run in found),
            cpu_us_per_record=round(median(run["cpu_us"] for run in found), 1),
            seconds=round(n / rates[kind], 3),
            details={
                "worker_cpu_us_per_record": round(median(run["worker_cpu_us"] for run in found), 1),
                "runs": [round(run["records_per_s"]) for run in found],
            },
        )


def order(number: int, size: int) -> dict[str, Any]:
    """Return an order whose JSON has ``size`` bytes, or as many as it needs."""
    found: dict[str, Any] = {
        "n": number,
        "customer": f"customer {number % 1000}",
        "amount": f"{number % 10_000}.50",
        "at": "2026-11-28T23:30:00Z",
        "lines": [{"sku": f"sku-{number % 77}", "number": 1}, {"sku": "sku-1", "number": number % 7}],
        "note": "",
    }
    return found | {"note": "x" * max(0, size - len(json.dumps(found)))}


def _avro() -> bytes:
    line: dict[str, Any] = {
        "type": "record",
        "name": "Line",
        "fields": [{"name": "sku", "type": "string"}, {"name": "number", "type": "int"}],
    }
    fields: list[dict[str, Any]] = [{"name": "n", "type": "long"}]
    fields += [{"name": name, "type": "string"} for name in _TEXTS]
    fields.append({"name": "lines", "type": {"type": "array", "items": line}})
    return json.dumps({"type": "record", "name": "Order", "fields": fields}).encode()


def _protobuf() -> bytes:
    file = FileDescriptorProto(name="order.proto", syntax="proto3")
    whole, line = file.message_type.add(name="Order"), file.message_type.add(name="Line")
    whole.field.add(name="n", number=1, type=Field.TYPE_INT64, label=Field.LABEL_OPTIONAL)
    for number, name in enumerate(_TEXTS, start=2):
        whole.field.add(name=name, number=number, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL)
    whole.field.add(name="lines", number=9, type=Field.TYPE_MESSAGE, type_name=".Line", label=Field.LABEL_REPEATED)
    line.field.add(name="sku", number=1, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL)
    line.field.add(name="number", number=2, type=Field.TYPE_INT32, label=Field.LABEL_OPTIONAL)
    return FileDescriptorSet(file=[file]).SerializeToString()


def _json_schema() -> bytes:
    line = {
        "type": "object",
        "properties": {"sku": {"type": "string"}, "number": {"type": "integer"}},
        "required": ["sku", "number"],
    }
    properties: dict[str, Any] = {name: {"type": "string"} for name in _TEXTS}
    properties |= {"n": {"type": "integer"}, "lines": {"type": "array", "items": line}}
    return json.dumps({"type": "object", "properties": properties, "required": list(properties)}).encode()


def _fed(bed: Bed, n: int, options: Options, value: dict[str, Any]) -> dict[str, Any]:
    """Create a source with ``n`` orders, and return its section of the configuration."""
    bed.report_progress(f"writing {n:,} orders")
    topic = bed.topic("source", options.partitions)
    schemas = {schema_id: Path(file) for schema_id, file in value.get("schemas", {}).items()}
    codec = build_codec(SerdeSettings(value["format"], schemas=schemas, write_id=_ID if schemas else None))
    producer = Producer(
        producer_config({"bootstrap.servers": bed.servers, "linger.ms": 5, "log_level": 3}, transactional_id=None)
    )
    for number in range(n):
        data = codec.encode(order(number, options.value_bytes))
        while True:
            try:
                producer.produce(topic, data, b"k%d" % (number % options.keys))
            except BufferError:
                producer.poll(0.1)
            else:
                break
        if number % 1000 == 0:
            producer.poll(0)
    if producer.flush(60):
        raise RuntimeError(f"{topic} could not be written")
    return {"topic": topic, "value": value}
