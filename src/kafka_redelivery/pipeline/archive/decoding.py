"""The columns of the archive that Python computes: decoded keys and values, normal messages and fingerprints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from kafka_redelivery.consumers.routes import codecs
from kafka_redelivery.pipeline.spark.schema_files import SchemaFiles
from kafka_redelivery.serdes.codec import Codec, RawCodec
from kafka_redelivery.serdes.decoded_json import as_json
from kafka_redelivery.serdes.errors import SerdeError
from kafka_redelivery.topology.config.settings import CodecSection, Settings
from kafka_redelivery.topology.policy.failure_details import FailureDetails
from kafka_redelivery.topology.policy.fingerprint import fingerprint, normalise

_ERROR_LIMIT: Final = 300
"""The maximum number of characters of a decoding error."""

_FIELDS: Final = ("key_json", "value_json", "decode_error", "normal_message", "fingerprint")
DECODED: Final = StructType([StructField(name, StringType()) for name in _FIELDS])


@dataclass(frozen=True, slots=True)
class SourceCodecs:
    """The codecs of each source, in a small form that is sent with every task."""

    sections: Mapping[str, str]
    """The codec sections as JSON, by source topic."""

    base: str
    """The folder that schema paths are relative to."""

    schemas: SchemaFiles = field(default_factory=SchemaFiles)
    """The schemas, for executors that do not have the folder."""

    details: FailureDetails = FailureDetails.FULL
    """Whether rows have keys and texts of exceptions."""

    @classmethod
    def of(cls, settings: Settings, base: Path) -> SourceCodecs:
        """Return the codecs of a configuration.

        Raises:
            SerdeError: a schema cannot be read, or settings contradict each other.
        """
        sections = {
            source.topic: CodecSection(key=source.key, value=source.value).model_dump_json()
            for source in settings.sources
        }
        schemas = SchemaFiles.of(settings, base)
        for section in sections.values():
            _codecs(section, str(base), schemas)
        return cls(sections, str(base), schemas, settings.failure_details)


def decoded(source_codecs: SourceCodecs) -> Callable[..., Column]:
    """Return a Spark function: (origin address, key, value, exception, message) -> a struct of :data:`DECODED`.

    A field is null if the origin has no codec, or its codec is ``raw``.
    """

    def decode(origin: pa.Array, key: pa.Array, value: pa.Array, exception: pa.Array, message: pa.Array) -> pa.Array:
        columns = (origin, key, value, exception, message)
        rows = [_row(source_codecs, *row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]
        fields = zip(*rows, strict=True) if rows else [()] * len(_FIELDS)
        return pa.StructArray.from_arrays([pa.array(field, pa.string()) for field in fields], list(_FIELDS))

    made: Callable[..., Column] = F.arrow_udf(decode, DECODED)  # type: ignore[attr-defined]  # not in its stubs
    return made


def _row(
    source_codecs: SourceCodecs,
    origin: str | None,
    key: bytes | None,
    value: bytes | None,
    exception: str | None,
    message: str | None,
) -> tuple[str | None, ...]:
    normal, digest = (
        (None, None) if exception is None and message is None else _fingerprint(exception or "", message or "")
    )
    section = source_codecs.sections.get(origin or "")
    if section is None:
        return None, None, None, normal, digest
    errors: list[str] = []
    key_codec, value_codec = _codecs(section, source_codecs.base, source_codecs.schemas)
    key_json = _text(key_codec, key, "key", errors, source_codecs.details)
    value_json = _text(value_codec, value, "value", errors, source_codecs.details)
    return key_json, value_json, "; ".join(errors) or None, normal, digest


@lru_cache(maxsize=4096)
def _fingerprint(exception: str, message: str) -> tuple[str, str]:
    normal = normalise(message)
    return normal, fingerprint(exception, normal)


@lru_cache
def _codecs(section: str, base: str, schemas: SchemaFiles) -> tuple[Codec, Codec]:
    """Create the codecs once in each Python worker."""
    return codecs(CodecSection.model_validate_json(section), schemas.folder(Path(base)))


def _text(codec: Codec, data: bytes | None, what: str, errors: list[str], details: FailureDetails) -> str | None:
    if data is None or isinstance(codec, RawCodec):
        return None
    try:
        return as_json(codec.decode(data))
    except SerdeError as error:
        # Do not wait for a registry that is down: the bytes are archived and can be decoded later.
        problem = type(error).__name__ if details.class_only else str(error)
        errors.append(f"{what}: {problem}"[:_ERROR_LIMIT].encode(errors="replace").decode())
        return None
