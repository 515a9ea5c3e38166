from __future__ import annotations

import pickle

import pytest

from kafka_redelivery.serdes.errors import (
    DecodeCode,
    DecodeError,
    EncodeCode,
    EncodeError,
    SchemaError,
    SchemaSourceUnavailable,
    SerdeError,
    SerdeSettingsError,
    UnknownSchemaError,
)

ERRORS: list[tuple[SerdeError, str]] = [
    (DecodeError("json", DecodeCode.NOT_JSON, "no comma"), "json not_json: no comma"),
    (DecodeError("avro", DecodeCode.TRUNCATED, "short", 7), "avro truncated (schema id 7): short"),
    (EncodeError("raw", EncodeCode.WRONG_TYPE, "needs bytes"), "raw wrong_type: needs bytes"),
    (EncodeError("avro", EncodeCode.AVRO_MISMATCH, "no", 0), "avro avro_mismatch (schema id 0): no"),
    (SchemaSourceUnavailable("registry r", "refused"), "schema source registry r is unavailable: refused"),
    (UnknownSchemaError("registry r", "schema with id 7"), "registry r has no schema with id 7"),
    (SchemaError("a.avsc", "is not JSON"), "schema a.avsc: is not JSON"),
    (SerdeSettingsError("reader", "is useless", "remove it"), "reader: is useless; remove it"),
]


@pytest.mark.parametrize(("error", "message"), ERRORS, ids=lambda value: type(value).__name__)
def test_errors_keep_their_data_across_processes(error: SerdeError, message: str) -> None:
    """A handler in a child process raises the same error in its parent: class, data and message."""
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - made one line above
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert str(copy) == str(error) == message


def test_an_unavailable_source_is_no_fault_of_the_record() -> None:
    """Whoever catches DecodeError to dead-letter a record never catches an outage with it."""
    assert not issubclass(SchemaSourceUnavailable, DecodeError)
    assert not issubclass(SchemaSourceUnavailable, EncodeError)


def test_codes_are_their_own_text() -> None:
    """Codes go into headers and metric labels as they are."""
    assert f"{DecodeCode.BAD_MAGIC}" == "bad_magic"
    assert all(code == code.name.lower() for code in (*DecodeCode, *EncodeCode))
