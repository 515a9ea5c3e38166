"""The defaults of an Avro schema as decoded values; fastavro (1.13.1) returns them as the JSON of the schema."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from fastavro.logical_readers import LOGICAL_READERS

from kafka_redelivery.serdes.avro_json import checked

DEFAULT: Final = "redelivery-default"
"""The attribute of a field with its default in JSON; fastavro refuses some that Java accepts."""

MAX_VALUES: Final = 100_000
"""How many values the defaults of a schema may have: records in defaults have defaults themselves."""

_REALS: Final = {"float": "<f", "double": "<d"}


class NoDefaultError(ValueError):
    """A default has the JSON type of its field, but is none of its values, such as an unknown symbol."""


def set_defaults(named: Mapping[str, Any], *, is_registered: bool) -> None:
    """Set the default of each field to the value that a written one is decoded to.

    Java accepts a schema with a default that is of the right JSON type and still no value of its field, and fails when
    it is needed. It is left out here.

    Args:
        named: the named types of a parsed schema, by full name; their fields are modified.
        is_registered: whether a default of another JSON type is left out, too: older registries took such schemas, and
            records that were written with them need no default.

    Raises:
        ValueError: a default has another JSON type than its field.
        OverflowError: there are more than :data:`MAX_VALUES`.
    """
    defaults = _Defaults(named)
    for name, each in named.items():
        for field in each.get("fields", ()):
            try:
                if DEFAULT in field:
                    field["default"] = defaults.value(field["type"], field[DEFAULT])
            except NoDefaultError:
                pass
            except ValueError as error:
                if is_registered:
                    continue
                raise ValueError(f"the default of {field['name']} in {name} {error}") from None


class _Defaults:
    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._left = MAX_VALUES

    def value(self, schema: Any, default: Any) -> Any:  # noqa: ANN401 - any schema, any JSON
        self._left -= 1
        if self._left < 0:
            raise OverflowError(f"the defaults have more than {MAX_VALUES} values")
        if isinstance(schema, list):
            return self._of_branch(schema, default)
        found: dict[str, Any] = schema if isinstance(schema, dict) else self._named.get(schema, {"type": schema})
        written = _written(found, default)
        match found["type"]:
            case "array":
                return [self.value(found["items"], each) for each in written]
            case "map":
                return {key: self.value(found["values"], each) for key, each in written.items()}
            case "record" | "error":
                return {each["name"]: self.value(each["type"], _of_field(each, written)) for each in found["fields"]}
        read = LOGICAL_READERS.get(f"{found['type']}-{found.get('logicalType')}")
        return written if read is None else read(written, found, None)

    def _of_branch(self, union: list[Any], default: Any) -> Any:  # noqa: ANN401 - as value
        """Return the value of the first branch that has one."""
        problem: type[ValueError] = ValueError
        for each in union:
            try:
                return self.value(each, default)
            except NoDefaultError:
                problem = NoDefaultError
            except ValueError:
                pass
        raise problem("fits no branch of the union")


def _of_field(field: Mapping[str, Any], record: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    if field["name"] not in record and DEFAULT not in field:
        raise ValueError(f"has no field {field['name']}")
    return record.get(field["name"], field.get(DEFAULT))


def _written(schema: Mapping[str, Any], default: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return what stands for a default, without its logical type. Parts are not checked."""
    kind = schema["type"]
    if kind in _REALS and isinstance(default, str):
        default = float(default)
    try:
        found = checked({name: schema[name] for name in ("type", "symbols", "size") if name in schema}, default)
    except ValueError as error:
        if kind == "float" or (isinstance(default, str) and kind in {"bytes", "fixed", "enum"}):
            raise NoDefaultError from error
        raise
    if kind in _REALS:
        (found,) = struct.unpack(_REALS[kind], struct.pack(_REALS[kind], found))
    is_decimal = schema.get("logicalType") == "decimal"
    if is_decimal and abs(int.from_bytes(found, "big", signed=True)) >= 10 ** schema["precision"]:
        raise NoDefaultError
    return found
