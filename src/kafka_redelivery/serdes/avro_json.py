"""Avro values as JSON that a person can edit, without loss; docs/dead-letters.md has the form of each type.

fastavro reads and writes the bytes, with a schema of the same bytes whose values are this JSON. Its ``json_writer`` and
``json_reader`` would not do (1.13.1): a date is its number, NaN is not JSON, and a map's empty key is an error; when
reading, an int may be ``"x"``, unknown fields are dropped, errors name no place, and a document has one line.

Source: the section on the JSON encoding of the Avro specification, for unions and bytes.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from datetime import date, datetime, time
from decimal import Context, Decimal, Inexact, InvalidOperation
from io import BytesIO
from math import inf, isfinite
from types import NoneType
from typing import Any, Final, TypeAlias

from fastavro.logical_readers import LOGICAL_READERS
from fastavro.logical_writers import LOGICAL_WRITERS

from kafka_redelivery.serdes.avro_shape import ShapeError
from kafka_redelivery.serdes.avro_types import LOGICAL, logical_of, parsed

_Schema: TypeAlias = Any
"""As ``fastavro.parse_schema`` returns it: a dict, a list or a str."""

_JSON: Final = "redelivery-json"
"""The logical type, for fastavro, of what it does not read as JSON by itself."""

_KEPT: Final = {"type", "name", "symbols", "size", "precision", "scale"}
"""What is kept of a schema as it is; fastavro's mark that it has been parsed is not."""

_NUMBERS: Final = {"int": "<i", "long": "<q", "float": "<f", "double": "<d"}
"""How :mod:`struct` names the numbers of the same range."""

_FORMS: Final[dict[str, tuple[set[type], str]]] = {
    "null": ({NoneType}, "null"),
    "boolean": ({bool}, "true or false"),
    "string": ({str}, "text"),
    "array": ({list}, "an array"),
    **dict.fromkeys(("int", "long"), ({int}, "a number without fraction")),
    **dict.fromkeys(("float", "double"), ({int, float}, "a number")),
    **dict.fromkeys(("bytes", "fixed"), ({str}, "text with one character per byte")),
    **dict.fromkeys(("map", "record", "error"), ({dict}, "an object")),
}
"""Of each type but an enum the classes of JSON, and how an error names them."""

_MOMENTS: Final[dict[str, type[date | time]]] = {
    "int-date": date,
    "int-time-millis": time,
    "long-time-micros": time,
    **{f"long-{local}timestamp-{unit}": datetime for local in ("", "local-") for unit in ("millis", "micros")},
}


class AvroJson:
    """The values of one schema as JSON."""

    def __init__(self, schema: _Schema) -> None:
        """Compile a parsed schema."""
        self._branches = 0
        self._parsed = parsed(self._as_json(schema))

    def read(self, stream: BytesIO) -> Any:  # noqa: ANN401 - any JSON
        """Return the next value, whose shape has been checked. Text may raise ``UnicodeDecodeError``."""
        return self._parsed.read(stream)

    def write(self, value: Any, stream: BytesIO) -> None:  # noqa: ANN401 - any JSON
        """Write a value.

        Raises:
            ShapeError: it is none of the schema; the reason begins with the place, such as ``$.lines[2].amount``.
        """
        self._parsed.write(self._written(self._parsed.type, value, "$"), stream)

    def _as_json(self, schema: _Schema) -> _Schema:
        """Return a schema of the same bytes, which fastavro reads as JSON."""
        if isinstance(schema, list):
            optional = _is_optional(schema)
            return [self._as_json(each) if optional or _name(each) == "null" else self._branch(each) for each in schema]
        if isinstance(schema, str) and schema not in _FORMS:
            return schema  # a type that has been defined
        whole: dict[str, Any] = {"type": schema} if isinstance(schema, str) else schema
        found = {each: whole[each] for each in _KEPT & whole.keys()}
        logical = logical_of(whole)
        if logical in _MOMENTS or whole["type"] in {"float", "double", "bytes", "fixed"}:
            found |= {"logicalType": _JSON, LOGICAL: logical}
        found |= {part: self._as_json(whole[part]) for part in {"items", "values"} & whole.keys()}
        if "fields" in whole:
            found["fields"] = [{"name": each["name"], "type": self._as_json(each["type"])} for each in whole["fields"]]
        return found

    def _branch(self, schema: _Schema) -> _Schema:
        """Return a record with one field: its bytes are those of the branch, and the field has the branch's name."""
        self._branches += 1
        fields = [{"name": _name(schema), "type": schema}]
        return self._as_json({"type": "record", "name": f"redelivery_branch_{self._branches}", "fields": fields})

    def _written(self, schema: _Schema, value: Any, at: str) -> Any:  # noqa: ANN401 - any JSON
        """Return what fastavro writes for the JSON at a place."""
        if isinstance(schema, list):
            return self._chosen(schema, value, at)
        found = self._parsed.named[schema] if isinstance(schema, str) else schema
        kind, logical = found["type"], found.get(LOGICAL, "")
        if logical.endswith("decimal") and type(value) is dict and value.keys() == {"bytes"}:
            return self._written({**found, LOGICAL: ""}, value["bytes"], f"{at}.bytes")
        try:
            value = checked(found, value)
        except (ValueError, OverflowError) as error:
            raise ShapeError(f"{at}: {error}") from None
        parts: dict[Any, _Schema]
        match kind:
            case "array":
                parts = dict.fromkeys(range(len(value)), found["items"])
            case "map":
                parts = dict.fromkeys(value, found["values"])
            case "record" | "error":
                parts = {each["name"]: each["type"] for each in found["fields"]}
                for name in [each for each in value if each not in parts]:
                    raise ShapeError(f"{at}.{name}: the schema has no such field; it has {', '.join(parts)}")
                for name in [each for each in parts if each not in value]:
                    raise ShapeError(f"{at}.{name}: is missing")
            case _:
                return value
        written = value.copy()
        for key, part in parts.items():  # a comprehension would need another frame at each level of a deep value
            written[key] = self._written(part, value[key], f"{at}[{key}]" if kind == "array" else f"{at}.{key}")
        return written

    def _chosen(self, union: list[_Schema], value: Any, at: str) -> tuple[str, Any]:  # noqa: ANN401 - any JSON
        """Return fastavro's name of a branch, and what it writes."""
        others = [each for each in union if _name(each) != "null"]
        if value is None and len(others) < len(union):
            return "null", None
        if _is_optional(union):
            return _name(others[0]), self._written(others[0], value, at)
        named = {each["fields"][0]["name"]: each for each in others}
        if type(value) is not dict or len(value) != 1 or value.keys() - named:
            needs = [f'{{"{name}": ...}}' for name in named] + ["null"] * (len(others) < len(union))
            raise ShapeError(f"{at}: needs {' or '.join(needs)}")
        ((name, inner),) = value.items()
        branch = named[name]
        return branch["name"], {name: self._written(branch["fields"][0]["type"], inner, f"{at}.{name}")}


def _name(schema: _Schema) -> str:
    return schema if isinstance(schema, str) else schema.get("name", schema["type"])


def _is_optional(union: list[_Schema]) -> bool:
    return len(union) == 2 and "null" in map(_name, union)  # noqa: PLR2004 - null and another type


def checked(schema: _Schema, value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return what fastavro writes for JSON, whose parts are not checked.

    Raises:
        ValueError: it is none of the type; the text says what it needs, such as ``needs text``.
        OverflowError: it is a moment that the type cannot represent.
    """
    kind, logical = schema["type"], schema.get(LOGICAL, "")
    if kind == "enum":
        if value not in schema["symbols"]:
            raise ValueError(f"{value!r} is none of {', '.join(schema['symbols'])}")
        return value
    if kind in _NUMBERS and logical and type(value) is str:
        value = _number(value, logical)
    classes, needs = _FORMS[kind]
    if type(value) not in classes:
        needs = "a decimal number as text" if logical.endswith("decimal") else needs
        raise ValueError(f"needs {'text or ' if logical in _MOMENTS else ''}{needs}")
    if kind in _NUMBERS:
        try:
            struct.pack(_NUMBERS[kind], value)
        except (OverflowError, struct.error):
            raise ValueError(f"{value} does not fit into an Avro {kind}") from None
    elif kind in {"string", "map"}:
        "".join(value).encode()  # a lone surrogate is an error
    elif kind in {"bytes", "fixed"}:
        return _decimal_bytes(value, schema) if logical.endswith("decimal") else _bytes(value, schema)
    return value


def _bytes(text: str, schema: _Schema) -> bytes:
    try:
        data = text.encode("latin-1")
    except UnicodeEncodeError as error:
        raise ValueError(f"{text[error.start]!r} is not a byte") from None
    if len(data) != schema.get("size", len(data)):
        raise ValueError(f"has {len(data)} bytes instead of {schema['size']}")
    return data


def _decimal_bytes(text: str, schema: _Schema) -> bytes:
    """Return the bytes of a decimal, as few as possible, as in Java: fastavro writes one more for such as -128."""
    precision, scale = schema["precision"], schema.get("scale", 0)
    context = Context(precision, traps=[InvalidOperation, Inexact])
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a decimal number") from None
    if not number.is_finite():
        raise ValueError(f"{text!r} is not a finite number")
    try:
        unscaled = int(number.quantize(Decimal(1).scaleb(-scale), context=context).scaleb(scale, context))
    except Inexact:
        raise ValueError(f"{text!r} has more than {scale} digits after the point") from None
    except InvalidOperation:
        raise ValueError(f"{text!r} has more than {precision} digits") from None
    return unscaled.to_bytes(schema.get("size") or max(unscaled, ~unscaled).bit_length() // 8 + 1, "big", signed=True)


def _number(text: str, logical: str) -> int | float | str:
    """Return the number that stands for a text, or the text if there is none."""
    if logical not in _MOMENTS:
        return float(text) if text in {"NaN", "Infinity", "-Infinity"} else text
    moment = _MOMENTS[logical].fromisoformat(text)
    has_zone = getattr(moment, "tzinfo", None) is not None
    if has_zone != logical.startswith("long-timestamp"):
        raise ValueError(f"{text!r} {'needs no zone; leave it out' if has_zone else 'has no zone; end it with Z'}")
    number: int = LOGICAL_WRITERS[logical](moment, {})
    if LOGICAL_READERS[logical](number, {}, None) != moment:
        raise ValueError(f"{text!r} is finer than a millisecond")
    return number


def _moment_as_json(number: int, schema: _Schema, _reader: object = None) -> int | str:
    logical = schema[LOGICAL]
    with suppress(ValueError, OverflowError):
        moment = LOGICAL_READERS[logical](number, {}, None)
        if LOGICAL_WRITERS[logical](moment, {}) == number:  # fastavro reads -1 ms as the time 00:00:00.999
            unit = "milliseconds" if logical.endswith("millis") else "microseconds"
            text: str = moment.isoformat() if logical == "int-date" else moment.isoformat(timespec=unit)
            return text.replace("+00:00", "Z")
    return number


def _real_as_json(number: float, _schema: _Schema, _reader: object = None) -> float | str:
    return number if isfinite(number) else {inf: "Infinity", -inf: "-Infinity"}.get(number, "NaN")


def _bytes_as_json(data: bytes, schema: _Schema, _reader: object = None) -> str | dict[str, str]:
    if not schema[LOGICAL].endswith("decimal"):
        return data.decode("latin-1")
    unscaled = Decimal(int.from_bytes(data, "big", signed=True))
    text = format(unscaled.scaleb(-schema.get("scale", 0), Context(schema["precision"])), "f")
    return text if _decimal_bytes(text, schema) == data else {"bytes": data.decode("latin-1")}


LOGICAL_READERS.update(
    {
        **dict.fromkeys((f"int-{_JSON}", f"long-{_JSON}"), _moment_as_json),
        **dict.fromkeys((f"float-{_JSON}", f"double-{_JSON}"), _real_as_json),
        **dict.fromkeys((f"bytes-{_JSON}", f"fixed-{_JSON}"), _bytes_as_json),
    }
)
