"""Rules about the formats of keys and values."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_redelivery.topology.config.settings import CodecSection, SerdeSection, Settings
from kafka_redelivery.topology.faults import Path, Violation

_AVRO_ONLY = ("schemas", "reader", "write_id", "registry", "subject")


def serde_rules(settings: Settings) -> Iterator[Violation]:
    """Yield serde settings of sources and outputs that contradict each other or are incomplete."""
    sections: list[tuple[str, tuple[CodecSection, ...]]] = [
        ("sources", settings.sources),
        ("outputs", settings.outputs),
    ]
    for name, codecs in sections:
        for index, codec in enumerate(codecs):
            for side, serde in (("key", codec.key), ("value", codec.value)):
                path: Path = (name, index, side)
                if serde.format == "avro":
                    yield from _avro(path, serde, writes=name == "outputs")
                else:
                    yield from _other(path, serde)


def _other(path: Path, serde: SerdeSection) -> Iterator[Violation]:
    for field in _AVRO_ONLY:
        if getattr(serde, field) != SerdeSection.model_fields[field].default:
            name = str(SerdeSection.model_fields[field].alias)
            problem = f"is only for format: avro, but the format is {serde.format}"
            yield Violation((*path, name), problem, "write format: avro, or remove it", key=True)


def _avro(path: Path, serde: SerdeSection, *, writes: bool) -> Iterator[Violation]:
    if not serde.schemas and not serde.registry:
        problem = "is avro, but has neither schemas nor a registry"
        fix = "add schemas: {1: order.avsc} or registry: {url: http://registry:8081}"
        yield Violation((*path, "format"), problem, fix)
        return
    if serde.registry and "url" not in serde.registry:
        yield Violation((*path, "registry"), "has no url", "add url: http://registry:8081")
    if serde.write_id is not None and serde.schemas and serde.write_id not in serde.schemas and not serde.registry:
        known = ", ".join(str(number) for number in sorted(serde.schemas))
        problem = f"is {serde.write_id}, which is not in schemas"
        yield Violation((*path, "writeId"), problem, f"write one of {known}, or add the schema to schemas")
    if serde.subject is not None and not serde.registry:
        problem = "names a subject of a registry, but there is no registry"
        yield Violation((*path, "subject"), problem, "add registry, or write writeId instead", key=True)
    if writes and serde.write_id is None and not serde.registry:
        problem = "does not say which schema outputs are written with"
        fix = f"add writeId: {min(serde.schemas)}" if serde.schemas else "add writeId"
        yield Violation(path, problem, fix)
