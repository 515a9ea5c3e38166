"""Objects of users' classes are encoded like the dicts that stand for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel, Field, TypeAdapter, field_serializer

from kafka_redelivery.consumers.handlers.record import Record
from kafka_redelivery.serdes.avro import AvroCodec
from kafka_redelivery.serdes.avro_branches import AvroRecord
from kafka_redelivery.serdes.codec import JsonCodec
from kafka_redelivery.serdes.errors import EncodeCode, EncodeError
from kafka_redelivery.serdes.objects import plain

JSON = JsonCodec()
LINE = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "sku", "type": "string"}, {"name": "number", "type": "int"}],
}
AVRO = AvroCodec.of(
    {
        7: {
            "type": "record",
            "name": "Order",
            "fields": [
                {"name": "id", "type": "int"},
                {"name": "lines", "type": {"type": "array", "items": LINE}},
                {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
                {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
                {"name": "currency", "type": {"type": "enum", "name": "Currency", "symbols": ["EUR"]}},
                {"name": "when", "type": ["null", {"type": "int", "logicalType": "date"}]},
            ],
        }
    }
)


class Currency(Enum):
    EURO = "EUR"


@dataclass
class Line:
    sku: str
    number: int


@dataclass
class Order:
    id: int
    lines: list[Line]
    amount: Decimal
    at: datetime
    key: UUID
    currency: Currency
    when: date | None = None


class OrderModel(BaseModel):
    id: int
    lines: list[Line]
    amount: Decimal
    at: datetime
    key: UUID
    currency: Currency
    when: date | None = None


class OrderStruct(msgspec.Struct):
    id: int
    lines: list[Line]
    amount: Decimal
    at: datetime
    key: UUID
    currency: Currency
    when: date | None = None


PARTS: dict[str, Any] = {
    "id": 1,
    "lines": [Line("a", 2)],
    "amount": Decimal("1.50"),
    "at": datetime(2026, 1, 1, tzinfo=UTC),
    "key": UUID(int=5),
    "currency": Currency.EURO,
    "when": date(2026, 1, 2),
}
WRITTEN = {
    "id": 1,
    "lines": [{"sku": "a", "number": 2}],
    "amount": "1.50",
    "at": "2026-01-01T00:00:00Z",
    "key": "00000000-0000-0000-0000-000000000005",
    "currency": "EUR",
    "when": "2026-01-02",
}
KINDS = [Order, OrderModel, OrderStruct]
TYPED_DICT: Callable[..., dict[str, Any]] = dict
"""An object of a TypedDict is a dict."""


@pytest.mark.parametrize("kind", [*KINDS, TYPED_DICT])
def test_an_object_is_written_as_json(kind: Callable[..., Any]) -> None:
    """Decimals, dates and UUIDs as text, members of enums as their values; also below dicts and lists."""
    order = kind(**PARTS)
    assert json.loads(JSON.encode(order) or b"") == WRITTEN
    assert json.loads(JSON.encode({"all": [order]}) or b"") == {"all": [WRITTEN]}


@pytest.mark.parametrize("kind", [*KINDS, TYPED_DICT])
def test_an_object_is_written_as_avro(kind: Callable[..., Any]) -> None:
    """Logical types get the values that they have in Python, and what is decoded makes the same object."""
    data = AVRO.encode(kind(**PARTS))
    decoded = AVRO.decode(data)
    assert decoded == PARTS | {"lines": [{"sku": "a", "number": 2}], "currency": "EUR"}
    assert TypeAdapter(Order).validate_python(decoded) == Order(**PARTS)


def test_objects_inside_each_other_are_written() -> None:
    """A model in a struct, a struct in a dict."""

    class Letter(msgspec.Struct, rename="camel"):
        my_order: OrderModel

    letter = Letter(OrderModel(**PARTS))
    assert json.loads(JSON.encode({"letter": letter}) or b"") == {"letter": {"myOrder": WRITTEN}}


def test_an_alias_is_the_name_that_is_written() -> None:
    """The value that is written fits its type again."""

    class Aliased(BaseModel):
        order_id: int = Field(alias="orderId")

    assert JSON.encode(Aliased(orderId=3)) == b'{"orderId":3}'


def test_what_a_class_says_about_json_holds() -> None:
    """Its serializers, and what its library writes for a set."""

    class Own(BaseModel):
        amount: Decimal = Decimal("1.5")
        seen: set[int] = {1}

        @field_serializer("amount", when_used="json")
        def _as_cents(self, amount: Decimal) -> int:
            return int(amount * 100)

    assert JSON.encode(Own()) == b'{"amount":150,"seen":[1]}'


def test_json_has_text_for_values_that_it_has_no_type_for() -> None:
    """At any place, since an object of a TypedDict is a dict."""
    values = [time(12, 30), timedelta(seconds=90), Currency.EURO, datetime(2026, 1, 1, tzinfo=UTC)]
    assert JSON.encode(values) == b'["12:30:00","PT1M30S","EUR","2026-01-01T00:00:00Z"]'


class Opaque:
    """A class that no library knows."""


@dataclass
class WithOpaque:
    it: Opaque = field(default_factory=Opaque)


@dataclass
class WithAnything:
    it: object


@pytest.mark.parametrize(
    "value",
    [
        {"it": {1}},
        {"it": b"x"},
        {"it": Opaque()},
        WithOpaque(),
        WithAnything(Opaque()),
        WithAnything(float("nan")),
        Record("orders", 0, 0, None, None, None, None, (), 0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_json_cannot_hold_is_refused(value: object) -> None:
    """A whole record is one, too: it is emitted by mistake."""
    with pytest.raises(EncodeError) as caught:
        JSON.encode(value)
    assert caught.value.code == EncodeCode.NOT_JSON


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (Order(**PARTS | {"id": "no"}), "an integer is required on field id"),
        (dict(PARTS, lines=[Line("a", "no")]), "an integer is required on field number"),  # type: ignore[arg-type]
        (Line("a", 2), "more fields than the schema specifies"),
        (WithOpaque(), "objects of class WithOpaque cannot be written"),
    ],
    ids=["field", "nested", "other class", "opaque"],
)
def test_an_object_that_does_not_fit_the_schema_is_refused(value: object, reason: str) -> None:
    """As a dict with its fields would be."""
    with pytest.raises(EncodeError, match=reason) as caught:
        AVRO.encode(value)
    assert caught.value.code == EncodeCode.AVRO_MISMATCH


def test_a_value_without_objects_is_not_copied() -> None:
    """It stays the same object."""
    value = {"a": [1, {"b": (2, None)}], "at": datetime(2026, 1, 1, tzinfo=UTC)}
    assert plain(value) is value


def test_a_record_of_a_union_keeps_its_name() -> None:
    """A copy of it, in which a dict stands for an object."""
    found = plain(AvroRecord("com.example.Created", {"line": Line("a", 2)}))
    assert isinstance(found, AvroRecord)
    assert (found.name, dict(found)) == ("com.example.Created", {"line": {"sku": "a", "number": 2}})
