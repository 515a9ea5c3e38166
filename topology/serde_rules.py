"""Rules about how bytes become values: which serde settings belong together."""

from __future__ import annotations

from collections.abc import Iterator

from topology.faults import Path
from topology.settings import CodecSection, SerdeSection, Settings
from topology.violations import Violation

_AVRO_ONLY = ("schemas", "reader", "write_id", "registry", "subject")


def serde_rules(settings: Settings) -> Iterator[Violation]:
    """What contradicts itself or lacks something among the serdes of sources and outputs."""
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
            problem = f"is for format: avro, but the format is {serde.format}"
            yield Violation((*path, name), problem, "write format: avro, or remove it", ((*path, "format"),), key=True)


def _avro(path: Path, serde: SerdeSection, *, writes: bool) -> Iterator[Violation]:
    written_in = ((*path, "schemas"), (*path, "registry"))
    if not serde.schemas and not serde.registry:
        problem = "is avro, but there are neither schemas nor a registry to read it with"
        mend = "add schemas: {1: order.avsc} or registry: {url: http://registry:8081}"
        yield Violation((*path, "format"), problem, mend, written_in)
        return
    if serde.registry and "url" not in serde.registry:
        yield Violation((*path, "registry"), "has no url", "add url: http://registry:8081")
    if serde.write_id is not None and serde.schemas and serde.write_id not in serde.schemas and not serde.registry:
        known = ", ".join(str(number) for number in sorted(serde.schemas))
        problem = f"is {serde.write_id}, which schemas does not have"
        yield Violation((*path, "writeId"), problem, f"use one of {known}, or add that schema", written_in)
    if serde.subject is not None and not serde.registry:
        problem = "is the name of something in a registry, but there is no registry"
        yield Violation((*path, "subject"), problem, "add a registry, or use writeId", written_in, key=True)
    if writes and serde.write_id is None and not serde.registry:
        problem = "does not tell which schema outputs are written with"
        mend = f"add writeId: {min(serde.schemas)}" if serde.schemas else "add writeId"
        yield Violation(path, problem, mend, (*written_in, (*path, "writeId")))
