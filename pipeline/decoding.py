"""What Python is needed for on the way into the archive: the codecs of the sources, and fingerprints."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pydantic_core import PydanticSerializationError, to_json
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from consumers.codecs import codecs
from pipeline.fingerprint import fingerprint, normalise
from pipeline.schema_files import SchemaFiles
from serdes.codec import Codec, RawCodec
from serdes.errors import SerdeError
from topology.settings import CodecSection, Settings

_ERROR_LIMIT: Final = 300
"""Most characters of an error of decoding."""

_FIELDS: Final = ("key_json", "value_json", "decode_error", "normal_message", "fingerprint")
DECODED: Final = StructType([StructField(name, StringType()) for name in _FIELDS])


@dataclass(frozen=True, slots=True)
class SourceCodecs:
    """How the records of each source are read. Small, so that every task can have it."""

    sections: Mapping[str, str]
    """By source topic: its codecs, as JSON."""

    base: str
    """The folder that paths of schemas are taken from."""

    schemas: SchemaFiles = field(default_factory=SchemaFiles)
    """For executors that do not have it."""

    @classmethod
    def of(cls, settings: Settings, base: Path) -> SourceCodecs:
        """Those of a configuration.

        Raises:
            SerdeError: a schema cannot be read, or the settings contradict each other.
        """
        sections = {
            source.topic: CodecSection(key=source.key, value=source.value).model_dump_json()
            for source in settings.sources
        }
        schemas = SchemaFiles.of(settings, base)
        for section in sections.values():
            _codecs(section, str(base), schemas)
        return cls(sections, str(base), schemas)


def decoded(source_codecs: SourceCodecs) -> Callable[..., Column]:
    """A function of Spark: (origin address, key, value, exception, message) -> a struct of :data:`DECODED`.

    Null where there is nothing to decode: no codec is configured for the origin, or it is ``raw``.
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
    normal, mark = (None, None) if exception is None and message is None else _mark(exception or "", message or "")
    section = source_codecs.sections.get(origin or "")
    if section is None:
        return None, None, None, normal, mark
    errors: list[str] = []
    key_codec, value_codec = _codecs(section, source_codecs.base, source_codecs.schemas)
    key_json = _text(key_codec, key, "key", errors)
    value_json = _text(value_codec, value, "value", errors)
    return key_json, value_json, "; ".join(errors) or None, normal, mark


@lru_cache(maxsize=4096)
def _mark(exception: str, message: str) -> tuple[str, str]:
    normal = normalise(message)
    return normal, fingerprint(exception, normal)


@lru_cache
def _codecs(section: str, base: str, schemas: SchemaFiles) -> tuple[Codec, Codec]:
    """Built once in each Python worker."""
    return codecs(CodecSection.model_validate_json(section), schemas.folder(Path(base)))


def _text(codec: Codec, data: bytes | None, what: str, errors: list[str]) -> str | None:
    if data is None or isinstance(codec, RawCodec):
        return None
    try:
        return as_json(codec.decode(data))
    except SerdeError as error:
        # A registry that is down is no reason to wait: the bytes are kept and can be decoded later.
        errors.append(f"{what}: {error}"[:_ERROR_LIMIT].encode(errors="replace").decode())
        return None


def as_json(value: object) -> str:
    """A decoded value as JSON text.

    Times are ISO 8601, bytes URL-safe base64, decimals and UUIDs text, NaN and the infinities their names.
    """
    try:
        return to_json(value, bytes_mode="base64", inf_nan_mode="strings", fallback=str).decode()
    except (PydanticSerializationError, UnicodeEncodeError):
        # A lone surrogate, which JSON can hold as an escape only.
        return json.dumps(value, default=_other)


def _other(value: Any) -> str:  # noqa: ANN401 - whatever a codec gave
    return urlsafe_b64encode(value).decode() if isinstance(value, bytes) else str(value)
