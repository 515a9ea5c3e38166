"""Schemas from a schema registry, through the client that confluent-kafka brings.

The only file of this package that needs the ``registry`` extra; the client is imported when a source is built.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias, TypeVar
from urllib.parse import urlsplit

from serdes.avro_schema import AvroSchema, JsonSchema, read_json, schema_of
from serdes.errors import SchemaError, SchemaSourceUnavailable, SerdeError, SerdeSettingsError, UnknownSchemaError

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

RegistryValue: TypeAlias = str | int | float | bool

DEFAULT_TIMEOUT_S = 10
"""Seconds a request may take if the configuration does not say; left alone, the client would wait for ever."""

_NOT_FOUND = (40401, 40402, 40403)
"""The registry's own codes for no such subject, version and schema; a bare 404 may be any web server's."""

_NUMBERS = (
    "cache.capacity",
    "cache.latest.ttl.sec",
    "max.retries",
    "retries.max.wait.ms",
    "retries.wait.ms",
    "timeout",
)
_T = TypeVar("_T")


class RegistrySchemas:
    """Schemas of a registry: each is fetched once, and then answered from memory."""

    def __init__(self, config: Mapping[str, RegistryValue]) -> None:
        """Build the client; nothing is sent yet.

        Args:
            config: the client's own properties by their own names (``url``, ``basic.auth.user.info``, ``ssl.*``, ...).
                Numbers may be given as text.

        Raises:
            SerdeSettingsError: the client refuses the configuration, or is not installed.
        """
        self._source = "registry " + ", ".join(_without_user(url) for url in str(config.get("url", "")).split(","))
        self._client = _client(config)
        self._lock = threading.Lock()
        self._schemas: dict[int, AvroSchema] = {}

    def by_id(self, schema_id: int) -> AvroSchema:
        """Return the schema of the id.

        Waits as long as the client tries: ``timeout``, ``max.retries`` and ``retries.*`` of its configuration. What is
        not found is asked for again the next time, since it may have come.

        Raises:
            UnknownSchemaError: the registry has none.
            SchemaError: it is not Avro, or not usable.
            SchemaSourceUnavailable: the registry did not answer, or not as a registry does.
        """
        schema = self._schemas.get(schema_id)
        if schema is not None:
            return schema
        with self._lock:
            schema = self._schemas.get(schema_id)
            if schema is None:
                schema = self._asked(f"schema with id {schema_id}", lambda: self._fetch(schema_id))
                self._schemas[schema_id] = schema
        return schema

    def id_for(self, subject: str, schema: AvroSchema) -> int:
        """Return the id the schema has in the subject; nothing is registered.

        Raises:
            UnknownSchemaError: the registry has no such subject, or not this schema in it.
            SchemaSourceUnavailable: as :meth:`by_id`.
        """
        return self._asked(f"schema {schema.name} in subject {subject}", lambda: self._look_up(subject, schema))

    def _fetch(self, schema_id: int) -> AvroSchema:
        place = f"{schema_id} of the {self._source}"
        registered = self._client.get_schema(schema_id)
        definitions = self._references(registered, place)
        return schema_of(_json_of(registered, place), place, definitions.get)

    def _references(self, registered: Schema, place: str) -> dict[str, JsonSchema]:
        """Return the schemas this one refers to, by name, together with what those refer to."""
        found: dict[str, JsonSchema] = {}
        waiting = list(registered.references or ())
        while waiting:
            reference = waiting.pop()
            if reference.name is None or reference.subject is None or reference.version is None:
                raise ValueError(f"an incomplete reference in {place}")
            if reference.name in found:
                continue
            # A deleted version still answers for the records that were written with it.
            referred = self._client.get_version(reference.subject, reference.version, deleted=True).schema
            found[reference.name] = _json_of(referred, f"{reference.name} for {place}")
            waiting.extend(referred.references or ())
        return found

    def _look_up(self, subject: str, schema: AvroSchema) -> int:
        from confluent_kafka.schema_registry import Schema  # noqa: PLC0415 - needs the extra, as the client does

        found = self._client.lookup_schema(subject, Schema(json.dumps(schema.definition), "AVRO"))
        if found.schema_id is None:
            raise ValueError("an answer without an id")
        return found.schema_id

    def _asked(self, wanted: str, ask: Callable[[], _T]) -> _T:
        try:
            return ask()
        except SerdeError:
            raise
        except Exception as error:  # the client documents no closed list: HTTP, TLS, OAuth, JSON and its own
            if getattr(error, "error_code", None) in _NOT_FOUND:
                raise UnknownSchemaError(self._source, wanted) from error
            reason = f"asked for {wanted}: {type(error).__name__}: {error}"
            raise SchemaSourceUnavailable(self._source, reason) from error


def _json_of(registered: Schema, place: str) -> JsonSchema:
    if registered.schema_type not in {None, "AVRO"}:
        raise SchemaError(place, f"is a schema for {registered.schema_type}, not for Avro")
    if registered.schema_str is None:
        raise ValueError("an answer without a schema")
    return read_json(registered.schema_str, place)


def _client(config: Mapping[str, RegistryValue]) -> SchemaRegistryClient:
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415 - only who uses it needs it
    except ImportError as error:
        raise SerdeSettingsError(
            "registry",
            f"the registry client is not installed ({error})",
            "install kafka-redelivery[registry], or give the schemas as files in schemas",
        ) from error
    numbers = {name: _number(name, config[name]) for name in _NUMBERS if name in config}
    try:
        return SchemaRegistryClient({"timeout": DEFAULT_TIMEOUT_S, **config, **numbers})
    except Exception as error:  # besides ValueError and TypeError, whatever TLS says of a certificate
        raise SerdeSettingsError(
            "registry", f"the registry client refuses it: {error}", "see the properties of its SchemaRegistryClient"
        ) from error


def _number(name: str, value: RegistryValue) -> int | float:
    try:
        return float(value) if "." in str(value) else int(value)
    except ValueError as error:
        raise SerdeSettingsError(f"registry.{name}", f"{value!r} is not a number", "write it in digits") from error


def _without_user(url: str) -> str:
    """A URL as it may appear in a message: credentials are not part of it."""
    parts = urlsplit(url.strip())
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
