"""Creates a codec from settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from kafka_redelivery.serdes.avro import AvroCodec
from kafka_redelivery.serdes.codec import Codec, JsonCodec, RawCodec, StringCodec
from kafka_redelivery.serdes.errors import SerdeSettingsError
from kafka_redelivery.serdes.registry import AVRO, RegistrySchemas, RegistryValue
from kafka_redelivery.serdes.schemas import KnownSchemas, LocalSchemas, schema_in_file
from kafka_redelivery.topology.config.settings import SERDE_OPTIONS, WITH_SCHEMA, SchemaIdPlace, SerdeFormat

_WITHOUT_SCHEMA: dict[str, type[RawCodec | StringCodec | JsonCodec]] = {
    "raw": RawCodec,
    "string": StringCodec,
    "json": JsonCodec,
}


@dataclass(frozen=True)
class SerdeSettings:
    """How the keys or values of a topic are decoded and encoded. All fields but ``format`` are about schemas."""

    format: SerdeFormat
    schemas: Mapping[int, Path] = field(default_factory=dict)
    """The file of each schema id; alternative to ``registry``: ``.avsc``, a descriptor set, or a JSON Schema."""

    reader: Path | None = None
    """Avro: the ``.avsc`` file of the application's own schema, into which records are resolved; None = as written."""

    write_id: int | None = None
    """The id of the schema to encode with."""

    registry: Mapping[str, RegistryValue] = field(default_factory=dict, repr=False)
    """The properties of the registry client, at least ``url``. Not in ``repr``, because they can contain a password."""

    subject: str | None = None
    """The subject of the registry to encode with: Avro with ``reader`` and the id it has there, else the latest."""

    schema_id: SchemaIdPlace = "prefix"
    """Where the schema id of what is encoded is."""

    message: str | None = None
    """Protobuf: the full name of the message to encode; None = the first one of the schema."""

    @property
    def in_header(self) -> bool:
        """Whether the schema id of what is encoded is in a header."""
        return self.schema_id == "header"


def settings_faults(settings: SerdeSettings) -> tuple[SerdeSettingsError, ...]:
    """Return all contradictions in the settings, without opening a file or a connection."""
    if settings.format not in get_args(SerdeFormat):
        fix = f"write one of {', '.join(get_args(SerdeFormat))}"
        return (SerdeSettingsError("format", f"{settings.format!r} is not a format", fix),)
    return tuple(_unused(settings)) + (tuple(_schema_faults(settings)) if settings.format in WITH_SCHEMA else ())


def build_codec(settings: SerdeSettings) -> Codec:
    """Create the codec. It reads and checks files now, and contacts a registry when a record needs a schema.

    Raises:
        SerdeSettingsError: the settings contradict each other, or the registry client refuses its properties.
        SchemaError: a schema file cannot be read or used.
    """
    for fault in settings_faults(settings):
        raise fault
    match settings.format:
        case "avro":
            return _avro(settings)
        case "protobuf":
            return _protobuf(settings)
        case "jsonschema":
            return _json_schema(settings)
    return _WITHOUT_SCHEMA[settings.format]()


def _avro(settings: SerdeSettings) -> Codec:
    source = RegistrySchemas(settings.registry, AVRO) if settings.registry else LocalSchemas(settings.schemas)
    reader = None if settings.reader is None else schema_in_file(settings.reader)
    return AvroCodec(
        source,
        reader=reader,
        write_id=settings.write_id,
        subject=settings.subject,
        in_header=settings.in_header,
    )


def _protobuf(settings: SerdeSettings) -> Codec:
    try:
        from kafka_redelivery.serdes import protobuf  # noqa: PLC0415 - only who uses it needs the extra
    except ImportError as error:
        raise _not_installed("protobuf", error) from error
    source = (
        RegistrySchemas(settings.registry, protobuf.PROTOBUF)
        if settings.registry
        else KnownSchemas({number: protobuf.schema_in_set(path) for number, path in settings.schemas.items()})
    )
    return protobuf.ProtobufCodec(
        source,
        write_id=settings.write_id,
        subject=settings.subject,
        message=settings.message,
        in_header=settings.in_header,
    )


def _json_schema(settings: SerdeSettings) -> Codec:
    try:
        from kafka_redelivery.serdes import json_schema  # noqa: PLC0415 - as before
    except ImportError as error:
        raise _not_installed("jsonschema", error) from error
    if not settings.registry:
        return json_schema.JsonSchemaCodec.of(
            settings.schemas, write_id=settings.write_id, in_header=settings.in_header
        )
    source = RegistrySchemas(settings.registry, json_schema.JSON_SCHEMA)
    return json_schema.JsonSchemaCodec(
        source, write_id=settings.write_id, subject=settings.subject, in_header=settings.in_header
    )


def _not_installed(name: str, error: ImportError) -> SerdeSettingsError:
    problem = f"what reads {name} is not installed ({error})"
    return SerdeSettingsError("format", problem, f"install kafka-redelivery[{name}]")


def _unused(settings: SerdeSettings) -> Iterator[SerdeSettingsError]:
    for name, formats in SERDE_OPTIONS.items():
        if settings.format not in formats and getattr(settings, name) not in (None, {}, "prefix"):
            problem = f"the format {settings.format} has no such setting"
            yield SerdeSettingsError(name, problem, f"remove it, or set format: {' or '.join(formats)}")


def _schema_faults(settings: SerdeSettings) -> Iterator[SerdeSettingsError]:
    if settings.schemas and settings.registry:
        yield SerdeSettingsError("registry", "it is set, but so is schemas", "keep either registry or schemas")
    elif settings.registry and "url" not in settings.registry:
        yield SerdeSettingsError("registry", "it has no url", "add url: http://HOST:PORT")
    elif not settings.schemas and not settings.registry:
        problem = f"{settings.format} needs schemas"
        yield SerdeSettingsError("schemas", problem, "give the file of each id, or a registry")
    elif settings.schemas and settings.write_id is not None and settings.write_id not in settings.schemas:
        ids = ", ".join(map(str, sorted(settings.schemas)))
        yield SerdeSettingsError("write_id", f"no file is given for the id {settings.write_id}", f"write one of {ids}")
    if settings.subject is None:
        return
    if settings.write_id is not None:
        yield SerdeSettingsError("subject", "write_id says what to write with as well", "keep either of them")
    if not settings.registry:
        yield SerdeSettingsError("subject", "only a registry has subjects", "set registry, or write_id instead")
