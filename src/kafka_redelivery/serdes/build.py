"""Creates a codec from settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from kafka_redelivery.serdes.avro import AvroCodec
from kafka_redelivery.serdes.codec import Codec, JsonCodec, RawCodec, StringCodec
from kafka_redelivery.serdes.errors import SerdeSettingsError
from kafka_redelivery.serdes.registry import RegistrySchemas, RegistryValue
from kafka_redelivery.serdes.schemas import LocalSchemas, SchemaSource, schema_in_file
from kafka_redelivery.topology.config.settings import SerdeFormat

_WITHOUT_SCHEMA: dict[str, type[RawCodec | StringCodec | JsonCodec]] = {
    "raw": RawCodec,
    "string": StringCodec,
    "json": JsonCodec,
}


@dataclass(frozen=True)
class SerdeSettings:
    """How the keys or values of a topic are decoded and encoded. All fields but ``format`` are for ``avro``."""

    format: SerdeFormat
    schemas: Mapping[int, Path] = field(default_factory=dict)
    """The ``.avsc`` file of each schema id; alternative to ``registry``."""

    reader: Path | None = None
    """The ``.avsc`` file of the application's own schema, into which records are resolved; None = as written."""

    write_id: int | None = None
    """The id of the schema to encode with."""

    registry: Mapping[str, RegistryValue] = field(default_factory=dict, repr=False)
    """The properties of the registry client, at least ``url``. Not in ``repr``, because they can contain a password."""

    subject: str | None = None
    """The subject of the registry in which ``reader`` has the id to encode with."""


def settings_faults(settings: SerdeSettings) -> tuple[SerdeSettingsError, ...]:
    """Return all contradictions in the settings, without opening a file or a connection."""
    if settings.format not in get_args(SerdeFormat):
        fix = f"write one of {', '.join(get_args(SerdeFormat))}"
        return (SerdeSettingsError("format", f"{settings.format!r} is not a format", fix),)
    if settings.format != "avro":
        return tuple(_unused(settings))
    return tuple(_avro_faults(settings))


def build_codec(settings: SerdeSettings) -> Codec:
    """Create the codec. It reads and checks files now, and contacts a registry when a record needs a schema.

    Raises:
        SerdeSettingsError: the settings contradict each other, or the registry client refuses its properties.
        SchemaError: a schema file cannot be read or used.
    """
    for fault in settings_faults(settings):
        raise fault
    if settings.format != "avro":
        return _WITHOUT_SCHEMA[settings.format]()
    source: SchemaSource = RegistrySchemas(settings.registry) if settings.registry else LocalSchemas(settings.schemas)
    reader = None if settings.reader is None else schema_in_file(settings.reader)
    return AvroCodec(source, reader=reader, write_id=settings.write_id, subject=settings.subject)


def _unused(settings: SerdeSettings) -> Iterator[SerdeSettingsError]:
    given = {
        "schemas": bool(settings.schemas),
        "reader": settings.reader is not None,
        "write_id": settings.write_id is not None,
        "registry": bool(settings.registry),
        "subject": settings.subject is not None,
    }
    for name, is_given in given.items():
        if is_given:
            problem = f"the format {settings.format} has no schema"
            yield SerdeSettingsError(name, problem, "remove it, or set format: avro")


def _avro_faults(settings: SerdeSettings) -> Iterator[SerdeSettingsError]:
    if settings.schemas and settings.registry:
        yield SerdeSettingsError("registry", "it is set, but so is schemas", "keep either registry or schemas")
    elif settings.registry and "url" not in settings.registry:
        yield SerdeSettingsError("registry", "it has no url", "add url: http://HOST:PORT")
    elif not settings.schemas and not settings.registry:
        yield SerdeSettingsError("schemas", "avro needs schemas", "give the .avsc file of each id, or a registry")
    elif settings.schemas and settings.write_id is not None and settings.write_id not in settings.schemas:
        ids = ", ".join(map(str, sorted(settings.schemas)))
        yield SerdeSettingsError("write_id", f"no file is given for the id {settings.write_id}", f"write one of {ids}")
    if settings.subject is None:
        return
    if settings.write_id is not None:
        yield SerdeSettingsError("subject", "write_id says what to write with as well", "keep either of them")
    if not settings.registry:
        yield SerdeSettingsError("subject", "only a registry has subjects", "set registry, or write_id instead")
    if settings.reader is None:
        yield SerdeSettingsError("subject", "it does not say which schema to write", "set reader to its .avsc file")
