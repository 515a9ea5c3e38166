"""Schemas from a schema registry, through the client of confluent-kafka.

Only this module needs the ``registry`` extra. It imports the client when a source is created.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

from kafka_redelivery.serdes.avro_schema import AvroSchema, JsonSchema, read_json, schema_of
from kafka_redelivery.serdes.errors import (
    LookUpWaits,
    SchemaError,
    SchemaSourceUnavailable,
    SerdeError,
    SerdeSettingsError,
    UnknownSchemaError,
    may_wait,
)
from kafka_redelivery.serdes.framing import SchemaId, short
from kafka_redelivery.serdes.schemas import S
from kafka_redelivery.topology.urls import without_secrets

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import RegisteredSchema, Schema, SchemaRegistryClient

RegistryValue: TypeAlias = str | int | float | bool

DEFAULT_TIMEOUT_S = 10
"""The default timeout of a request in seconds; the client itself would wait without limit."""

_FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
"""Properties that name a file. The error of one that is missing or damaged does not name it."""

_NOT_FOUND = (40401, 40402, 40403)
"""The registry's error codes for a missing subject, version or schema; any web server can return a plain 404."""

_LOOK_S: Final = 3

REFUSED_FOR_S = 1.0
"""How long a schema is not requested again that is missing or could not be requested.

Producers register a schema before they write with it.
"""

_MAX_REFUSED = 1000
"""How many of these schemas are remembered. Bytes that are not Avro at all can name any id."""

_MAX_ID = 2**31 - 1
"""The largest id that a registry gives. It answers larger ones as if the address were wrong."""

_NUMBERS = (
    "cache.capacity",
    "cache.latest.ttl.sec",
    "max.retries",
    "retries.max.wait.ms",
    "retries.wait.ms",
    "timeout",
)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class SchemaKind(Generic[S]):
    """The schemas of a format in a registry."""

    type: str
    """What the registry calls the format, such as ``AVRO``."""

    read: Callable[[str, Mapping[str, str], str], S]
    """Makes a schema of its text, the texts of all that it refers to by name, and a location for errors.

    Raises ``SchemaError`` for a schema that cannot be used, and ``ValueError`` for an answer that is none.
    """

    form: str | None = None
    """The form in which the registry has to return schemas; ``None`` = as they were registered."""


def _read_avro(text: str, references: Mapping[str, str], location: str) -> AvroSchema:
    named: dict[str, JsonSchema] = {
        name: read_json(each, f"{name} for {location}") for name, each in references.items()
    }
    return schema_of(read_json(text, location), location, named.get, is_registered=True)


AVRO: Final = SchemaKind("AVRO", _read_avro)


class RegistrySchemas(Generic[S]):
    """Schemas of a registry; each is fetched once and then cached."""

    def __init__(
        self, config: Mapping[str, RegistryValue], kind: SchemaKind[S], clock_s: Callable[[], float] = monotonic
    ) -> None:
        """Create the client without sending a request.

        Args:
            config: the properties of the client, by their names (``url``, ``basic.auth.user.info``, ``ssl.*``, ...).
                Numbers may be text.
            kind: the format of the schemas.
            clock_s: monotonic seconds.

        Raises:
            SerdeSettingsError: the client refuses the properties, or is not installed.
        """
        self._source = "registry " + ", ".join(
            without_secrets(url.strip()) for url in str(config.get("url", "")).split(",")
        )
        self._client = _client(config)
        self._kind = kind
        self._lock = threading.Lock()
        self._schemas: dict[SchemaId, S] = {}
        self._guids: dict[int, UUID | None] = {}
        self._clock_s = clock_s
        self._refused: dict[str, tuple[float, SerdeError]] = {}
        """Until when a schema is not requested again, and why."""

    def by_id(self, schema_id: SchemaId) -> S:
        """Return the schema of the id.

        The call takes as long as the client tries: see its properties ``timeout``, ``max.retries`` and ``retries.*``.
        After an error the schema is requested again after :data:`REFUSED_FOR_S`. While the registry does not answer,
        one thread at a time asks, and the others get the error at once.

        Raises:
            UnknownSchemaError: the registry has no schema with this id.
            SchemaError: the schema cannot be used.
            SchemaSourceUnavailable: the registry does not answer, or returns an invalid answer.
            LookUpWaits: it would have to be asked, where a look-up may not wait.
        """
        schema = self._schemas.get(schema_id)
        if schema is not None:
            return schema
        wanted = f"schema with id {schema_id}"
        if isinstance(schema_id, int) and schema_id > _MAX_ID:
            raise UnknownSchemaError(self._source, wanted)
        _, error = self._refused.get(wanted, (0.0, None))
        away = error if isinstance(error, SchemaSourceUnavailable) else None
        if not may_wait.get():
            self._refuse(wanted)
            raise LookUpWaits(self._source, wanted, lambda: self.by_id(schema_id))
        if not self._lock.acquire(blocking=away is None):
            assert away is not None  # noqa: S101 - it did not wait
            raise away.with_traceback(None)
        try:
            schema = self._schemas.get(schema_id)
            if schema is None:
                schema = self._request(wanted, lambda: self._fetch(schema_id))
                self._schemas[schema_id] = schema
        finally:
            self._lock.release()
        return schema

    def id_for(self, subject: str, schema: AvroSchema) -> int:
        """Return the id of an Avro schema in the subject, without registering it.

        Raises:
            UnknownSchemaError: the registry has no such subject, or the subject does not have the schema.
            SchemaSourceUnavailable: the registry does not answer, or returns an invalid answer.
        """
        return self._request(f"schema {schema.name} in subject {subject}", lambda: self._look_up(subject, schema))

    def latest_in(self, subject: str) -> int:
        """Return the id of the latest schema in the subject.

        Codecs ask before the first value that they write, and write with this schema from then on, whatever the
        client's property ``cache.latest.ttl.sec`` is.

        Raises:
            UnknownSchemaError: the registry has no such subject.
            SchemaSourceUnavailable: the registry does not answer, or returns an invalid answer.
        """
        return self._request(f"subject {subject}", lambda: self._latest(subject))

    def _latest(self, subject: str) -> int:
        return self._noted(self._client.get_latest_version(subject, fmt=self._kind.form))

    def guid_of(self, schema_id: int) -> UUID | None:
        """Return the GUID of a schema; ``None`` if the registry knows no GUIDs.

        Raises:
            UnknownSchemaError: the registry has no schema with this id.
            SchemaSourceUnavailable: the registry does not answer, or returns an invalid answer.
        """
        if schema_id not in self._guids:
            self._request(f"GUID of the schema with id {schema_id}", lambda: self._ask_guid(schema_id))
        return self._guids[schema_id]

    def _ask_guid(self, schema_id: int) -> None:
        for each in self._client.get_schema_versions(schema_id, deleted=True):
            if each.subject is not None and each.version is not None:
                self._noted(self._client.get_version(each.subject, each.version, deleted=True, fmt=self._kind.form))
                break
        self._guids.setdefault(schema_id, None)

    def _noted(self, found: RegisteredSchema) -> int:
        if found.schema_id is None:
            raise ValueError("an answer without an id")
        self._guids[found.schema_id] = None if found.guid is None else UUID(found.guid)
        return found.schema_id

    def _fetch(self, schema_id: SchemaId) -> S:
        location = f"{schema_id} of the {self._source}"
        registered = (
            self._client.get_schema(schema_id, fmt=self._kind.form)
            if isinstance(schema_id, int)
            else self._client.get_schema_by_guid(str(schema_id), fmt=self._kind.form)
        )
        text = self._text_of(registered, location)
        return self._kind.read(text, self._references(registered, location), location)

    def _references(self, registered: Schema, location: str) -> dict[str, str]:
        """Return all schemas that this one refers to, directly or not, by name."""
        found: dict[str, str] = {}
        waiting = list(registered.references or ())
        while waiting:
            reference = waiting.pop()
            if reference.name is None or reference.subject is None or reference.version is None:
                raise ValueError(f"an incomplete reference in {location}")
            if reference.name in found:
                continue
            # Records may have been written with a version that is deleted now.
            version = self._client.get_version(reference.subject, reference.version, deleted=True, fmt=self._kind.form)
            found[reference.name] = self._text_of(version.schema, f"{reference.name} for {location}")
            waiting.extend(version.schema.references or ())
        return found

    def _text_of(self, registered: Schema, location: str) -> str:
        found = registered.schema_type or "AVRO"
        if found != self._kind.type:
            raise SchemaError(location, f"is a schema for {found}, not for {self._kind.type}")
        if registered.schema_str is None:
            raise ValueError("an answer without a schema")
        return registered.schema_str

    def _look_up(self, subject: str, schema: AvroSchema) -> int:
        from confluent_kafka.schema_registry import Schema  # noqa: PLC0415 - needs the extra, as the client does

        found = self._client.lookup_schema(subject, Schema(json.dumps(schema.definition), "AVRO"))
        return self._noted(found)

    def _refuse(self, wanted: str) -> None:
        """Raise the last answer's error while it holds."""
        refused = self._refused.get(wanted)
        if refused is not None and self._clock_s() < refused[0]:
            raise refused[1].with_traceback(None)

    def _request(self, wanted: str, ask: Callable[[], _T]) -> _T:
        self._refuse(wanted)
        if not may_wait.get():
            raise LookUpWaits(self._source, wanted, lambda: self._request(wanted, ask))
        try:
            found = ask()
        except SerdeError:
            raise
        except Exception as error:  # the client raises errors of HTTP, TLS, OAuth and JSON, and its own
            problem: SerdeError
            if getattr(error, "error_code", None) in _NOT_FOUND:
                problem = UnknownSchemaError(self._source, wanted)
            else:
                status = getattr(error, "http_status_code", None)  # the text may be the whole page of a proxy
                reason = f"asked for {wanted}: {f'HTTP {status}: ' if status else ''}{short(error)}"
                problem = SchemaSourceUnavailable(self._source, reason)
            if len(self._refused) >= _MAX_REFUSED:
                self._refused.clear()
            self._refused[wanted] = self._clock_s() + REFUSED_FOR_S, problem
            raise problem from error
        self._refused.pop(wanted, None)
        return found


def why_away(config: Mapping[str, RegistryValue]) -> str | None:
    """Ask a registry once, for at most :data:`_LOOK_S`; return why it does not answer, or ``None`` if it does.

    Raises:
        SerdeSettingsError: as of :class:`RegistrySchemas`.
    """
    try:
        RegistrySchemas({**config, "timeout": _LOOK_S, "max.retries": 0}, AVRO).by_id(1)
    except SchemaSourceUnavailable as error:
        return str(error)
    except SerdeError:
        return None  # it has answered
    return None


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
        for url in str(config.get("url", "")).split(","):
            urlsplit(url.strip())  # the client looks at all but the first when it needs them
        return SchemaRegistryClient({"timeout": DEFAULT_TIMEOUT_S, **config, **numbers})
    except Exception as error:  # ValueError, TypeError, or any error of TLS about a certificate
        files = ", ".join(f"{name} {config[name]}" for name in _FILES if name in config)
        named = f" ({files})" if files and isinstance(error, OSError) else ""
        raise SerdeSettingsError(
            "registry",
            f"the registry client refuses them: {without_secrets(str(error))}{named}",
            "see the properties of its SchemaRegistryClient",
        ) from error


def _number(name: str, value: RegistryValue) -> int | float:
    try:
        return float(value) if "." in str(value) else int(value)
    except ValueError as error:
        raise SerdeSettingsError(f"registry.{name}", "is not a number", "write it in digits") from error
