"""Typed values: the handler gets an object of its type, and a value that does not fit reaches no handler."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Generic, Protocol, TypeVar
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from kafka_redelivery.consumers.errors import HandlerLoadError, InvalidValueError
from kafka_redelivery.consumers.flow.lane import Lane
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.handler import Handler, as_handler
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.handlers.record import Context, Record, Redeliver, Reject
from kafka_redelivery.consumers.handlers.spans import with_spans
from kafka_redelivery.consumers.handlers.values import ValueType
from kafka_redelivery.serdes.codec import JsonCodec
from kafka_redelivery.topology.policy.decision import Failure, FailureDetails, FailureKind
from kafka_redelivery.topology.wire.headers import LAST_ATTEMPT, HeaderList, Headers
from tests.unit.consumers.records import NOW, Fetched, item, record, route, source

JSON = JsonCodec()


NO_KEY = UUID(int=0)


class Currency(Enum):
    EUR = "eur"


@dataclass
class Line:
    sku: str
    number: int


@dataclass
class Order:
    id: int
    lines: list[Line]
    amount: Decimal = Decimal(0)
    at: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    key: UUID = NO_KEY
    currency: Currency = Currency.EUR
    notes: dict[str, int] = field(default_factory=dict)


class OrderModel(BaseModel):
    id: int
    lines: list[Line]
    amount: Decimal = Decimal(0)
    at: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    key: UUID = UUID(int=0)
    currency: Currency = Currency.EUR
    notes: dict[str, int] = Field(default_factory=dict)


class OrderDict(TypedDict):
    id: int
    lines: list[Line]
    amount: Decimal
    at: datetime
    key: UUID
    currency: Currency
    notes: dict[str, int]


class OrderStruct(msgspec.Struct):
    id: int
    lines: list[Line]
    amount: Decimal = Decimal(0)
    at: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    key: UUID = UUID(int=0)
    currency: Currency = Currency.EUR
    notes: dict[str, int] = msgspec.field(default_factory=dict)


T = TypeVar("T")


@dataclass
class Page(Generic[T]):
    rows: list[T]


class Letter(Protocol):
    value: Any


GOOD = {
    "id": 1,
    "lines": [{"sku": "a", "number": 2}],
    "amount": "1.50",
    "at": "2026-01-01T00:00:00Z",
    "key": "00000000-0000-0000-0000-000000000005",
    "currency": "eur",
    "notes": {"b": 3},
}
PARTS: dict[str, Any] = {
    "id": 1,
    "lines": [Line("a", 2)],
    "amount": Decimal("1.50"),
    "at": datetime(2026, 1, 1, tzinfo=UTC),
    "key": UUID(int=5),
    "currency": Currency.EUR,
    "notes": {"b": 3},
}
TYPES = (Order, OrderModel, OrderDict, OrderStruct)


def run(handler: Handler, *values: object, headers: Headers | None = None) -> list[tuple[int, Failure]]:
    """Deliver JSON values, or bytes, and return the failures."""
    given = item(source(route(value=JSON)), [_message(offset, value, headers) for offset, value in enumerate(values)])
    Processor(handler, {}, lambda: NOW, None).run(given)
    assert given.position == len(values)
    return given.failures


def _message(offset: int, value: object, headers: Headers | None) -> Fetched:
    return record(offset, value if isinstance(value, bytes) else JSON.encode(value), headers=headers)


AGAIN: HeaderList = [(LAST_ATTEMPT, b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
"""The headers of a redelivery in a group with traces."""

traced_or_not = pytest.mark.parametrize("changed", [lambda handler: handler, with_spans], ids=["untraced", "traced"])


def failure_of(handler: Handler, value: object) -> Failure:
    """The failure of one value."""
    [(_, failure)] = run(handler, value)
    return failure


def typed(kind: object, function: Callable[..., Any] = lambda record: None) -> Handler:  # noqa: ARG005 - a handler
    """A handler with a declared type."""
    return as_handler(function, value=kind)


class TestWhatTheHandlerGets:
    @pytest.mark.parametrize("kind", TYPES)
    def test_a_parameter_of_a_value_type_gets_the_value(self, kind: Any) -> None:  # noqa: ANN401 - a type
        """Nested objects, dates, decimals, UUIDs and enums included."""
        seen: list[Any] = []

        def charge(order: Any) -> None:  # noqa: ANN401 - set below
            seen.append(order)

        charge.__annotations__["order"] = kind
        assert run(as_handler(charge), GOOD) == []
        assert seen == [kind(**PARTS)]
        assert type(seen[0]) is (dict if kind is OrderDict else kind)

    @traced_or_not
    def test_a_record_of_a_type_has_the_value(self, changed: Callable[[Handler], Handler]) -> None:
        """The context has the same record."""
        seen: list[Any] = []

        def charge(record: Record[Order], context: Context) -> None:
            seen.append((record.value, context.record is record, record.raw_value))

        assert run(changed(as_handler(charge)), GOOD, headers=AGAIN) == []
        assert seen == [(Order(**PARTS), True, JSON.encode(GOOD))]

    @traced_or_not
    def test_the_context_has_the_record_of_a_value(self, changed: Callable[[Handler], Handler]) -> None:
        """With the value that the handler got."""
        seen: list[Any] = []

        def charge(order: Order, context: Context) -> None:
            seen.append((context.record.value is order, context.record.message_id))

        assert run(changed(as_handler(charge)), GOOD, headers=AGAIN) == []
        assert seen == [(True, "orders-0@0")]

    def test_a_declared_type_decides_where_the_annotation_does_not(self) -> None:
        """A handler without an annotation still gets the record."""
        seen: list[Any] = []
        assert run(typed(OrderStruct, lambda record: seen.append(record.value)), GOOD) == []
        assert seen == [OrderStruct(**PARTS)]

    def test_a_class_and_a_partial_are_looked_into(self) -> None:
        """As the first parameter of a call."""
        seen: list[Any] = []

        class Shop:
            def __call__(self, order: Order, context: Context) -> None:
                seen.append((order.id, context.attempt))

        def charge(client: str, record: Record[Order]) -> None:
            seen.append((client, record.value.id))

        @functools.wraps(charge)
        def decorated(*arguments: Any) -> None:  # noqa: ANN401 - whatever is given
            charge(*arguments)

        for handler in (Shop(), Shop().__call__, functools.partial(charge, "a"), functools.partial(decorated, "b")):
            assert run(as_handler(handler), GOOD) == []
        assert seen == [(1, 1), (1, 1), ("a", 1), ("b", 1)]

    async def _charge(self, order: Order) -> None:
        assert order == Order(**PARTS)

    def test_an_async_handler_gets_it(self) -> None:
        handler = as_handler(self._charge)
        assert handler.asynchronous
        given = item(source(route(value=JSON)), [record(0, JSON.encode(GOOD)), record(1, b'{"id": 1}')])
        handler.loop.run(Processor(handler, {}, lambda: NOW, None).run_async(given))
        assert [(index, failure.kind) for index, failure in given.failures] == [(1, FailureKind.INVALID_VALUE)]

    def test_a_union_takes_one_of_its_types(self) -> None:
        seen: list[Any] = []

        def handle(value: Order | Line) -> None:
            seen.append(value)

        assert run(as_handler(handle), GOOD, {"sku": "a", "number": 2}) == []
        assert seen == [Order(**PARTS), Line("a", 2)]

    def test_a_generic_type_and_an_annotated_one(self) -> None:
        seen: list[Any] = []

        def page(record: Record[Page[Line]]) -> None:
            seen.append(record.value)

        def positive(line: Annotated[Line, AfterValidator(lambda line: replace(line, sku="b"))]) -> None:
            seen.append(line)

        assert run(as_handler(page), {"rows": [{"sku": "a", "number": 1}]}) == []
        assert run(as_handler(positive), {"sku": "a", "number": 1}) == []
        assert seen == [Page([Line("a", 1)]), Line("b", 1)]

    def test_a_prepared_record_is_converted_at_each_delivery(self) -> None:
        """As on Spark, where a record may be given to the slot again."""
        seen: list[Any] = []

        def charge(record: Record[Order]) -> None:
            seen.append(record.value)

        prepared = Record("orders", 0, 0, None, GOOD, None, None, (), 0)
        for _ in range(2):
            given = WorkItem(Lane(source(route(value=JSON)), exclusive=True), [prepared])  # type: ignore[list-item] # as on Spark
            Processor(as_handler(charge), {}, lambda: NOW, None).run(given)
            assert given.failures == []
        assert (seen, prepared.value) == ([Order(**PARTS)] * 2, GOOD)


def plain(record: Record) -> None:
    """The record, as it was before there were types."""
    assert record.value == GOOD


def annotated(record: Annotated[Record, "the record"]) -> None:
    """With a note."""
    plain(record)


def of_anything(record: Record[Any]) -> None:
    """With a value of any type."""
    plain(record)


def of_a_protocol(record: Letter) -> None:
    """With what it needs of the record."""
    assert record.value == GOOD


def of_an_object(record: object) -> None:
    """As a type that fits everything."""
    assert isinstance(record, Record)


def generic(record: T) -> T | None:
    """As a decorator has it."""
    assert isinstance(record, Record)
    return None


def any_number(*record: Order) -> None:
    """Without a first parameter."""
    assert isinstance(record[0], Record)


@pytest.mark.parametrize(
    "handler", [plain, annotated, of_anything, of_a_protocol, of_an_object, generic, any_number, lambda _: None, len]
)
def test_without_a_type_the_function_is_called_as_it_is(handler: Callable[..., Any]) -> None:
    """So there is no cost for each record."""
    found = as_handler(handler)
    assert (found.call, found.value) == (handler, None)
    if handler is not len:
        assert run(found, GOOD) == []


def test_vectorized_handlers_have_no_typed_values() -> None:
    """Their first parameter is a batch of records."""

    def handle(batch: bytes) -> None:
        raise NotImplementedError

    assert as_handler(handle, takes="arrow").call is handle


class TestAValueThatDoesNotFit:
    @pytest.mark.parametrize(
        ("kind", "value", "message"),
        [
            (Order, {"id": 1}, "$.lines: Field required"),
            (
                Order,
                {"id": [], "lines": [{"sku": "a"}]},
                "$.id: Input should be a valid integer; $.lines[0].number: Field required",
            ),
            (OrderModel, GOOD | {"currency": "usd"}, "$.currency: Input should be 'eur'"),
            (OrderDict, [1], "$: Input should be a valid dictionary"),
            (OrderStruct, {"id": 1}, "$: Object missing required field `lines`"),
            (OrderStruct, GOOD | {"lines": [{"sku": 1}]}, "$.lines[0].sku: Expected `str`, got `int`"),
            (Order, None, "$: null or a tombstone, but the handler takes Order without None"),
            (Order, b"null", "$: null or a tombstone, but the handler takes Order without None"),
        ],
        ids=str,
    )
    def test_it_reaches_no_handler(self, kind: object, value: object, message: str) -> None:
        """The failure names the places in the value."""

        def never(_: Record) -> None:
            raise AssertionError

        assert failure_of(typed(kind, never), value) == Failure(FailureKind.INVALID_VALUE, "InvalidValueError", message)

    def test_at_most_three_places_are_named(self) -> None:
        message = failure_of(typed(Order), {"id": "x", "lines": [{}, {}]}).message
        assert message.count("$") == 3
        assert message.endswith("; and 2 more")

    def test_bytes_that_are_no_value_are_undecodable(self) -> None:
        assert failure_of(typed(Order), b"{").kind is FailureKind.UNDECODABLE

    def test_a_tombstone_reaches_a_handler_that_takes_none(self) -> None:
        seen: list[Any] = []

        def charge(order: Order | None) -> None:
            seen.append(order)

        def tell(record: Record[OrderStruct | None]) -> None:
            seen.append(record.value)

        for handler in (charge, tell):
            assert run(as_handler(handler), None, GOOD) == []
        assert seen == [None, Order(**PARTS), None, OrderStruct(**PARTS)]


SECRET = "card-4711"  # noqa: S105 - a value that may not be shown


def _refuse(_: int) -> int:
    raise ValueError(SECRET)


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    amount: Annotated[int, AfterValidator(_refuse)] = 0
    notes: dict[str, int] = Field(default={}, validation_alias="remarks")
    nested: dict[str, Line] = {}
    currency: Currency = Currency.EUR


class StrictStruct(msgspec.Struct, forbid_unknown_fields=True, rename="kebab"):
    amount: int = 0
    my_notes: dict[str, int] = {}
    currency: Currency = Currency.EUR
    lines: list[Line] = []

    def __post_init__(self) -> None:
        if self.amount < 0:
            raise ValueError(SECRET)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Strict, {"amount": 1}, "$.amount: value_error"),
        (Strict, {"amount": SECRET}, "$.amount: int_parsing"),
        (Strict, {SECRET: 1}, "$.*: extra_forbidden"),
        (Strict, {"remarks": {SECRET: SECRET}}, "$.remarks.*: int_parsing"),
        (Strict, {"nested": {SECRET: {"sku": "a"}}}, "$.nested.*.number: missing"),
        (Strict, {"currency": SECRET}, "$.currency: enum"),
        (StrictStruct, {"amount": SECRET}, "$.amount: Expected `int`, got `str`"),
        (StrictStruct, {"amount": -1}, "$: invalid"),
        (StrictStruct, {SECRET: 1}, "$: invalid"),
        (StrictStruct, {"currency": SECRET}, "$.currency: invalid"),
        (StrictStruct, {"my-notes": {SECRET: SECRET}}, "$.my-notes[...]: Expected `int`, got `str`"),
        (StrictStruct, {"lines": [{"sku": "a"}]}, "$.lines[0]: Object missing required field `number`"),
    ],
    ids=str,
)
def test_class_only_leaves_out_all_of_the_value(kind: object, value: object, message: str) -> None:
    """Names of its fields stay; names that come from the value do not."""
    handler = typed(kind)
    assert failure_of(replace(handler, details=FailureDetails.CLASS_ONLY), value).message == message
    assert FailureDetails.CLASS_ONLY.of(failure_of(replace(handler, details=FailureDetails.CLASS_ONLY), value)).message
    full = failure_of(handler, value).message
    assert SECRET in full or "missing" in message or "extra" in message or "int" in message.lower() or "enum" in message


_TEXT = st.text(max_size=5).map("§{}".format)
_NAMES = st.sampled_from(["id", "lines", "amount", "at", "currency", "notes", "sku", "remarks", "nested", "my-notes"])
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.just(10**25) | st.just("1e999999") | _TEXT
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES | _TEXT, inner, max_size=4),
    max_leaves=8,
)
_FUZZED = [ValueType(kind, "") for kind in (*TYPES, Strict, StrictStruct)]


@given(st.dictionaries(_NAMES | _TEXT, _VALUES, max_size=5) | _VALUES)
def test_any_value_fits_or_is_refused_without_a_word_of_it(value: object) -> None:
    """There is no other error."""
    refused = []
    for kind in _FUZZED:
        try:
            kind.of(value)
        except InvalidValueError as error:
            refused.append(error.without_value)
    assert all(each.startswith("$") and "§" not in each for each in refused)


class TestErrorsOfTheUsersOwnCode:
    @pytest.mark.parametrize(
        ("error", "kind"),
        [
            (ValueError("no"), FailureKind.INVALID_VALUE),
            (AssertionError("no"), FailureKind.INVALID_VALUE),
            (KeyError("no"), FailureKind.RAISED),
            (ConnectionError("no"), FailureKind.RAISED),
            (Reject("no"), FailureKind.REJECTED),
            (Redeliver("no"), FailureKind.REDELIVER),
            (MemoryError(), FailureKind.CRITICAL),
            (SystemExit(1), FailureKind.RAISED),
        ],
        ids=repr,
    )
    def test_only_what_the_library_takes_for_a_fault_of_the_value_is_one(
        self, error: BaseException, kind: FailureKind
    ) -> None:
        """Anything else is the handler's own failure, and counts."""

        def check(_: int) -> int:
            raise error

        checked = make_dataclass("checked", [("id", Annotated[int, AfterValidator(check)])])
        given = item(source(route(value=JSON)), [record(0, b'{"id":1}')])
        Processor(typed(checked), {}, lambda: NOW, None).run(given)
        assert [failure.kind for _, failure in given.failures] == [kind]

    @pytest.mark.parametrize(
        ("error", "kind"), [(ValueError, "invalid_value"), (TypeError, "invalid_value"), (OSError, "raised")]
    )
    def test_of_a_struct(self, error: type[Exception], kind: str) -> None:
        class Checked(msgspec.Struct):
            id: int

            def __post_init__(self) -> None:
                raise error("no")

        assert failure_of(typed(Checked), {"id": 1}).kind == kind


class Opaque:
    """A class that no library knows."""


@dataclass
class WithOpaque:
    it: Opaque


class StructWithOpaque(msgspec.Struct):
    it: list[Opaque]


class Tree(msgspec.Struct):
    below: list[Tree] = []


def takes(annotation: object) -> Callable[[Any], None]:
    """A handler with an annotation."""

    def handle(value: Any) -> None:  # noqa: ANN401, ARG001 - set below
        return None

    handle.__annotations__["value"] = annotation
    return handle


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (dict, "type dict, which is neither Record nor a dataclass, a pydantic model, a TypedDict, a msgspec struct"),
        (list[Order], "neither Record nor"),
        (int | None, "type int in int | None, which is neither"),
        (Record[int], "type int, which is neither"),
        (Opaque, "neither Record nor"),
        (Context, "neither Record nor"),
        (None, "has no type of a value"),
        (Order | OrderStruct, "mixes types of several libraries"),
        ("Nowhere", "type Nowhere, which cannot be resolved: NameError"),
        ("Record[OnlyForCheckers]", "which cannot be resolved"),
        ("OnlyForCheckers", "which cannot be resolved"),
        (WithOpaque, "takes WithOpaque, which cannot be used: Unable to generate pydantic-core schema"),
        (StructWithOpaque, "takes StructWithOpaque, which cannot be used: msgspec does not know Opaque"),
    ],
    ids=str,
)
def test_a_type_that_cannot_be_used_is_refused(annotation: object, message: str) -> None:
    """At the start, with what to write instead."""
    with pytest.raises(HandlerLoadError) as caught:
        as_handler(takes(annotation), target="shop:charge")
    assert message in caught.value.problem
    assert caught.value.fix
    assert caught.value.target == "shop:charge"


def test_a_struct_may_contain_itself() -> None:
    """The look at its fields ends."""
    assert run(typed(Tree), {"below": [{"below": []}]}) == []


def test_a_record_that_only_type_checkers_import_is_known_by_its_name() -> None:
    """As linters want imports that nothing but annotations use."""
    for text in ("Record", "Record[Any]", "kafka_redelivery.Record"):
        handle = takes(text)
        assert as_handler(handle).call is handle


def test_a_declared_type_resolves_its_own_name() -> None:
    """A class that is local to a function, or imported for type checkers only."""

    @dataclass
    class Local:
        id: int

    seen: list[Any] = []

    def charge(order: Local) -> None:
        seen.append(order)

    with pytest.raises(HandlerLoadError, match="cannot be resolved"):
        as_handler(charge)
    assert run(as_handler(charge, value=Local), {"id": 1}) == []
    assert seen == [Local(1)]


def test_a_declared_type_that_contradicts_the_annotation_is_refused() -> None:
    """One of the two is a mistake."""
    with pytest.raises(HandlerLoadError, match="takes Order, but its value is declared to be Line"):
        as_handler(takes(Record[Order]), value=Line)
    assert as_handler(takes(Order), value=Order).value is not None
