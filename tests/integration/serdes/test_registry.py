"""The adapter and the real client against a registry that speaks HTTP on loopback."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

import kafka_redelivery.serdes.registry as registry_module
from kafka_redelivery.serdes.avro import AvroCodec
from kafka_redelivery.serdes.avro_schema import AvroSchema, schema_of
from kafka_redelivery.serdes.errors import (
    DecodeCode,
    DecodeError,
    EncodeCode,
    EncodeError,
    SchemaError,
    SchemaSourceUnavailable,
    SerdeSettingsError,
    UnknownSchemaError,
)
from kafka_redelivery.serdes.registry import AVRO, REFUSED_FOR_S, RegistrySchemas, RegistryValue

if TYPE_CHECKING:
    from tests.unit.serdes.conftest import Registry

FLIGHT = {"type": "record", "name": "Flight", "fields": [{"name": "carrier", "type": "string"}]}
UNITED = b"\x00\x00\x00\x00\x07\x04UA"


def source(
    registry: Registry, clock_s: Callable[[], float] = time.monotonic, /, **config: RegistryValue
) -> RegistrySchemas[AvroSchema]:
    """A source that gives up at once."""
    return RegistrySchemas({"url": registry.url, "max.retries": 0, **config}, AVRO, clock_s)


def test_a_schema_is_fetched_once_and_kept(registry: Registry) -> None:
    """The registry is asked for the first record of an id, and for no other."""
    registry.add(7, FLIGHT)
    codec = AvroCodec(source(registry), write_id=7)
    for _ in range(3):
        assert codec.decode(UNITED) == {"carrier": "UA"}
        assert codec.encode({"carrier": "UA"}) == UNITED
    assert registry.requests == ["GET /schemas/ids/7"]


def test_nothing_is_asked_before_it_is_needed(registry: Registry) -> None:
    """A worker starts without its registry; the first record is what needs it."""
    AvroCodec(source(registry), write_id=7)
    assert registry.requests == []


def test_a_written_schema_has_the_id_of_its_subject(registry: Registry) -> None:
    """The application's schema is looked up in the subject, once, and is never registered."""
    registry.add(6, {**FLIGHT, "name": "Other"}, version=1)
    registry.add(7, FLIGHT, version=2)
    codec = AvroCodec(source(registry), reader=schema_of(FLIGHT, "reader"), subject="flights-value")
    assert codec.encode({"carrier": "UA"}) == UNITED
    assert codec.encode({"carrier": "AA"}) is not None
    assert registry.requests == ["POST /subjects/flights-value"]


@pytest.mark.parametrize("subject", ["flights-value", "a subject/with signs"])
def test_a_schema_that_is_not_registered_cannot_be_written(registry: Registry, subject: str) -> None:
    """Neither in a subject without it, nor in no subject."""
    registry.add(7, {**FLIGHT, "name": "Other"})
    codec = AvroCodec(source(registry), reader=schema_of(FLIGHT, "reader"), subject=subject)
    with pytest.raises(EncodeError, match="Flight in subject") as caught:
        codec.encode({"carrier": "UA"})
    assert caught.value.code == EncodeCode.UNKNOWN_SCHEMA


def test_referenced_schemas_are_fetched_too(registry: Registry) -> None:
    """References are followed through several subjects; each is fetched once."""
    code = {"type": "enum", "name": "geo.Code", "symbols": ["EWR", "JFK"]}
    airport = {"type": "record", "name": "geo.Airport", "fields": [{"name": "code", "type": "geo.Code"}]}
    flight = {
        "type": "record",
        "name": "nyc.Flight",
        "fields": [{"name": "to", "type": "geo.Airport"}, {"name": "over", "type": "geo.Code"}],
    }
    to_code = {"name": "geo.Code", "subject": "code", "version": 3}
    registry.add(5, code, "code", 3)
    registry.add(6, airport, "airport", 1, references=[to_code])
    registry.add(7, flight, references=[{"name": "geo.Airport", "subject": "airport", "version": 1}, to_code])
    codec = AvroCodec(source(registry), write_id=7)
    value = {"to": {"code": "JFK"}, "over": "EWR"}
    assert codec.decode(codec.encode(value)) == value
    assert sorted(registry.requests) == [
        "GET /schemas/ids/7",
        "GET /subjects/airport/versions/1",
        "GET /subjects/code/versions/3",
    ]


def test_an_unknown_id_is_the_records_fault(registry: Registry) -> None:
    """A registry that answers and has no such schema makes the record undecodable; a later one asks again."""
    now_s = [50.0]
    codec = AvroCodec(source(registry, lambda: now_s[0]))
    with pytest.raises(DecodeError) as caught:
        codec.decode(UNITED)
    assert caught.value.code == DecodeCode.UNKNOWN_SCHEMA
    registry.add(7, FLIGHT)
    now_s[0] += REFUSED_FOR_S
    assert codec.decode(UNITED) == {"carrier": "UA"}


def test_records_of_an_unknown_id_do_not_each_ask_the_registry(registry: Registry) -> None:
    """A thousand of them in a second send one request, and those of another id one more."""
    now_s = [50.0]
    codec = AvroCodec(source(registry, lambda: now_s[0]), reader=schema_of(FLIGHT, "reader"), subject="none")
    for _ in range(1000):
        with pytest.raises(DecodeError):
            codec.decode(UNITED)
        with pytest.raises(EncodeError):
            codec.encode({"carrier": "UA"})
        now_s[0] += REFUSED_FOR_S / 1001
    with pytest.raises(DecodeError):
        codec.decode(b"\x00\x00\x00\x00\x08\x04UA")
    assert registry.requests == ["GET /schemas/ids/7", "POST /subjects/none", "GET /schemas/ids/8"]


def test_a_schema_that_was_missing_is_asked_for_while_another_is_fetched(registry: Registry) -> None:
    """It may have been registered since. Only while the registry does not answer is nothing waited for."""
    now_s = [50.0]
    schemas = source(registry, lambda: now_s[0])
    with pytest.raises(UnknownSchemaError):
        schemas.by_id(7)
    registry.add(7, FLIGHT)
    now_s[0] += REFUSED_FOR_S
    found: list[str] = []
    asking = threading.Thread(target=lambda: found.append(schemas.by_id(7).name), daemon=True)
    with schemas._lock:  # another thread fetches another schema
        asking.start()
        asking.join(0.2)
        assert asking.is_alive()
    asking.join(60)
    assert found == ["Flight"]


def test_one_thread_at_a_time_asks_a_registry_that_is_away(registry: Registry) -> None:
    """The others get the error at once, so that they keep no slot."""
    now_s = [50.0]
    schemas = source(registry, lambda: now_s[0])
    registry.instead = (503, b"{}")
    with pytest.raises(SchemaSourceUnavailable):
        schemas.by_id(7)
    now_s[0] += REFUSED_FOR_S
    with schemas._lock, pytest.raises(SchemaSourceUnavailable):
        schemas.by_id(7)


def test_missing_schemas_take_limited_memory(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random bytes can name more ids than are remembered. A schema that exists is not affected."""
    monkeypatch.setattr(registry_module, "_MAX_REFUSED", 10)
    registry.add(7, FLIGHT)
    codec = AvroCodec(source(registry))
    for schema_id in range(100, 125):
        with pytest.raises(DecodeError):
            codec.decode(b"\x00" + schema_id.to_bytes(4, "big") + b"\x04UA")
    assert codec.decode(UNITED) == {"carrier": "UA"}
    assert len(codec._source._refused) <= 10  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("schema", "more", "reason"),
    [
        (FLIGHT, {"schemaType": "PROTOBUF"}, "PROTOBUF, not for AVRO"),
        ({"type": "record"}, {}, "not a usable Avro schema"),
        ("geo.Airport", {}, "geo.Airport, which no schema defines"),
    ],
    ids=["protobuf", "malformed", "unresolved"],
)
def test_a_schema_that_is_not_usable_is_the_records_fault(
    registry: Registry, schema: object, more: Mapping[str, Any], reason: str
) -> None:
    """One producer's bad schema dead-letters its records and stops nobody else's."""
    registry.add(7, schema, **more)
    with pytest.raises(SchemaError, match=reason):
        source(registry).by_id(7)
    with pytest.raises(DecodeError) as caught:
        AvroCodec(source(registry)).decode(UNITED)
    assert caught.value.code == DecodeCode.BAD_SCHEMA


@pytest.mark.parametrize(
    ("type_", "default"),
    [
        ("int", 3_000_000_000),
        ("int", "0"),
        ({"type": "record", "name": "Inner", "fields": [{"name": "n", "type": "int"}]}, {}),
    ],
)
def test_a_registered_schema_with_a_wrong_default_is_read(registry: Registry, type_: object, default: object) -> None:
    """Older registries took them. No default is needed to read what was written, and none is written."""
    field = {"name": "n", "type": type_}
    registry.add(7, {"type": "record", "name": "Flight", "fields": [{**field, "default": default}]})
    codec = AvroCodec(source(registry), write_id=7)
    value = codec.decode(b"\x00\x00\x00\x00\x07\x04")
    assert value == {"n": 2 if isinstance(type_, str) else {"n": 2}}
    assert codec.encode(value) == b"\x00\x00\x00\x00\x07\x04"
    with pytest.raises(EncodeError):
        codec.encode({})


def test_a_reference_that_is_gone_is_an_unknown_schema(registry: Registry) -> None:
    """A schema whose parts are not there is as good as not there."""
    registry.add(7, FLIGHT, references=[{"name": "geo.Code", "subject": "code", "version": 3}])
    with pytest.raises(UnknownSchemaError):
        source(registry).by_id(7)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b'{"error_code": 50001, "message": "Error in the backend data store"}'),
        (503, b""),
        (404, b"<html>no registry lives here</html>"),
        (404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}'),
        (401, b'{"error_code": 401, "message": "Unauthorized"}'),
        (429, b"{}"),
        (200, b"<html>please log in</html>"),
        (200, b"{}"),
        (200, b"[]"),
        (200, b""),
        (200, b'{"schema": "\\"string\\"", "references": [{"name": "x"}]}'),
    ],
    ids=str,
)
def test_an_answer_that_is_no_registrys_says_nothing_of_the_record(
    registry: Registry, status: int, body: bytes
) -> None:
    """Overload, missing rights and log-in pages are outages: the record waits, it is not poison."""
    registry.instead = (status, body)
    with pytest.raises(SchemaSourceUnavailable, match=registry.url):
        AvroCodec(source(registry)).decode(UNITED)
    with pytest.raises(SchemaSourceUnavailable):
        source(registry).id_for("flights-value", schema_of(FLIGHT, "reader"))
    registry.instead = None
    registry.add(7, FLIGHT)
    assert AvroCodec(source(registry)).decode(UNITED) == {"carrier": "UA"}


def test_a_registry_out_of_reach_says_nothing_of_the_record() -> None:
    """A refused connection is an outage."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    codec = AvroCodec(RegistrySchemas({"url": f"http://127.0.0.1:{port}", "max.retries": 0}, AVRO))
    with pytest.raises(SchemaSourceUnavailable, match="refused"):
        codec.decode(UNITED)


def test_a_registry_that_does_not_answer_is_given_up() -> None:
    """A connection that stays silent ends at the time-out, of which there is always one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        silent = {"url": f"http://127.0.0.1:{server.getsockname()[1]}", "max.retries": "0"}
        with pytest.raises(SchemaSourceUnavailable, match="Timeout"):
            RegistrySchemas({**silent, "timeout": "0.2"}, AVRO).by_id(7)


def test_a_request_for_a_guid_that_failed_is_repeated(registry: Registry) -> None:
    """Only the answer says that there is none."""
    now_s = [50.0]
    registry.add(7, FLIGHT)
    schemas = source(registry, lambda: now_s[0])
    registry.instead = (503, b"{}")
    for _ in range(2):
        with pytest.raises(SchemaSourceUnavailable):
            schemas.guid_of(7)
    registry.instead = None
    now_s[0] += REFUSED_FOR_S
    assert schemas.guid_of(7) == UUID(int=7)


def test_a_page_of_a_proxy_is_cut(registry: Registry) -> None:
    """The error is the cause of a hold, and a line of the log."""
    registry.instead = (502, b"<html>" + b"x" * 10_000)
    with pytest.raises(SchemaSourceUnavailable, match="<html>") as caught:
        source(registry).by_id(7)
    assert len(str(caught.value)) < 500


def test_credentials_are_sent_and_not_told(registry: Registry) -> None:
    """Properties reach the client by their own names; a message shows where the registry is, never the password."""
    registry.password = "user:secret"  # noqa: S105
    registry.add(7, FLIGHT)
    assert source(registry, **{"basic.auth.user.info": "user:secret"}).by_id(7).name == "Flight"
    wrong = registry.url.replace("://", "://user:guess@")
    with pytest.raises(SchemaSourceUnavailable) as caught:
        RegistrySchemas({"url": wrong}, AVRO).by_id(7)
    assert registry.url.replace("://", "://********@") in str(caught.value)
    assert "guess" not in str(caught.value)


def test_the_second_of_two_urls_stands_in_for_the_first(registry: Registry) -> None:
    """The client's own fail-over is at work."""
    registry.add(7, FLIGHT)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    config = {"url": f"http://127.0.0.1:{port}, {registry.url}", "max.retries": "0"}
    assert RegistrySchemas(config, AVRO).by_id(7).name == "Flight"


def test_threads_that_need_one_schema_fetch_it_once(registry: Registry) -> None:
    """Handler slots that meet a new schema together do not all ask for it."""
    registry.add(7, FLIGHT)
    schemas = source(registry)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(schemas.by_id(7))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1
    assert registry.requests == ["GET /schemas/ids/7"]


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({}, "registry"),
        ({"url": "ftp://x"}, "registry"),
        ({"url": "http://x, http://[::1:1"}, "registry"),
        ({"url": "http://x", "unknown.property": "1"}, "registry"),
        ({"url": "http://x", "ssl.ca.location": "/nowhere.pem"}, "registry"),
        ({"url": "http://x", "timeout": "soon"}, "registry.timeout"),
    ],
    ids=str,
)
def test_properties_the_client_refuses_are_told_at_start(config: Mapping[str, RegistryValue], field: str) -> None:
    """A typing error in a property is one clear line, not a failure at the first record."""
    with pytest.raises(SerdeSettingsError) as caught:
        RegistrySchemas(config, AVRO)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "url", ["ftp://user:canary@x", "user:canary@x", "http://us/er:canary@y,http://[::1:1", "http://x, y:canary@z"]
)
def test_a_refused_url_is_named_without_its_password(url: str) -> None:
    """The client's own message has the whole address."""
    with pytest.raises(SerdeSettingsError) as caught:
        RegistrySchemas({"url": url}, AVRO)
    assert "canary" not in str(caught.value)


def test_without_the_client_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who needs the registry learns what to install; nobody else needs it."""
    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry", None)
    with pytest.raises(SerdeSettingsError, match=r"kafka-redelivery\[registry\]"):
        RegistrySchemas({"url": "http://x"}, AVRO)


def test_the_latest_schema_of_a_subject_is_written(registry: Registry) -> None:
    """Without a reader the subject says with what, as of the first record that is written."""
    registry.add(6, {**FLIGHT, "name": "Other"}, version=1)
    registry.add(7, FLIGHT, version=2)
    codec = AvroCodec(source(registry), subject="flights-value")
    assert codec.encode({"carrier": "UA"}) == UNITED
    assert codec.encode({"carrier": "UA"}) == UNITED
    assert registry.requests == ["GET /subjects/flights-value/versions/latest", "GET /schemas/ids/7"]
    with pytest.raises(EncodeError) as caught:
        AvroCodec(source(registry), subject="other").encode({"carrier": "UA"})
    assert caught.value.code == EncodeCode.UNKNOWN_SCHEMA
