"""Objects of users' classes as what a codec encodes: dataclasses, models, structs, Protobuf messages and enums.

The libraries are imported only if such an object is written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import copy
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

_UNCHANGED: Final = frozenset({str, int, float, bool, bytes, datetime, date, time, Decimal, UUID, type(None)})
_JSON_TEXT: Final = (datetime, date, time, timedelta, Decimal, UUID)
_KEPT: Final = (bytes, bytearray, datetime, date, time, timedelta, Decimal, UUID)
"""What msgspec leaves as it is for a codec that has a type for it."""


def plain(value: Any, *, as_json: bool = False) -> Any:  # noqa: ANN401 - whatever a handler emits
    """Return a value in which dicts stand for objects, and values for members of enums, at every depth.

    The same object is returned if it holds none. Aliases of fields become the names, as in what is decoded.

    Args:
        value: the value.
        as_json: write what an object holds as JSON: dates, decimals and UUIDs become text. Otherwise these stay.

    Raises:
        TypeError, ValueError: an object cannot be written.
        RecursionError: the value is nested endlessly.
    """
    kind: Any = type(value)  # mypy does not see that classes are hashable
    if kind in _UNCHANGED:
        return value
    if isinstance(value, dict):
        changed = {name: found for name, each in value.items() if (found := plain(each, as_json=as_json)) is not each}
        if not changed:
            return value
        whole = copy(value)  # it may know its name, as records of Avro's unions do
        whole.update(changed)
        return whole
    if kind is list or kind is tuple:
        parts = [plain(each, as_json=as_json) for each in value]
        return value if all(new is old for new, old in zip(parts, value, strict=True)) else kind(parts)
    if isinstance(value, Enum):
        return plain(value.value, as_json=as_json)
    write = _writer(kind, as_json=as_json)
    return value if write is None else write(value)


def json_default(value: object) -> object:
    """Return what JSON writes for a value that it has no type for.

    Objects as in :func:`plain`; dates, times, durations, decimals and UUIDs as text.

    Raises:
        TypeError: it is another one.
        ValueError: an object cannot be written.
    """
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, _JSON_TEXT):
        from pydantic_core import to_jsonable_python  # noqa: PLC0415 - see above

        return to_jsonable_python(value)
    kind: Any = type(value)
    write = _writer(kind, as_json=True)
    if write is None:
        raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
    return write(value)


@lru_cache(1024)
def _writer(kind: type, *, as_json: bool) -> Callable[[Any], Any] | None:
    """Return what writes objects of a class; ``None``: it is no such class."""
    if _is_struct(kind):
        return _msgspec_writer(as_json=as_json)
    protobuf = sys.modules.get("google.protobuf.message")
    if protobuf is not None and issubclass(kind, protobuf.Message):
        from pydantic_core import to_jsonable_python  # noqa: PLC0415 - see above

        from kafka_redelivery.serdes.protobuf_plain import plain_message  # noqa: PLC0415 - see above

        if as_json:
            return lambda value: to_jsonable_python(plain_message(value), bytes_mode="base64", inf_nan_mode="constants")
        return plain_message
    pydantic = sys.modules.get("pydantic")
    is_model = pydantic is not None and issubclass(kind, pydantic.BaseModel)
    if not (is_model or is_dataclass(kind)) or kind.__module__.startswith("kafka_redelivery."):
        return None  # also a whole record, which a handler emits by mistake
    from pydantic import PydanticUserError, TypeAdapter  # noqa: PLC0415 - see above
    from pydantic_core import SchemaSerializer  # noqa: PLC0415 - as before

    try:
        # Without this pydantic writes null for a NaN in a field of no type that can hold one.
        dump = SchemaSerializer(TypeAdapter(kind).core_schema, {"ser_json_inf_nan": "constants"}).to_python
    except (PydanticUserError, NameError) as error:  # NameError: one of its annotations
        problem = str(error).partition("\n")[0]
        raise TypeError(f"objects of class {kind.__name__} cannot be written: {problem}") from error
    if as_json:
        # What the class declares is not checked again.
        return lambda value: dump(value, mode="json", by_alias=True, warnings=False)
    return lambda value: plain(dump(value, by_alias=True, warnings=False))


def _is_struct(kind: type) -> bool:
    msgspec = sys.modules.get("msgspec")
    return msgspec is not None and issubclass(kind, msgspec.Struct)


def _msgspec_writer(*, as_json: bool) -> Callable[[Any], Any]:
    import msgspec  # noqa: PLC0415 - the user's class has imported it

    def nested(value: object) -> object:
        kind: Any = type(value)
        write = _writer(kind, as_json=as_json)
        if write is None:
            raise TypeError(f"an object of class {kind.__name__} cannot be written")
        return write(value)

    kept = () if as_json else _KEPT
    return lambda value: msgspec.to_builtins(value, builtin_types=kept, str_keys=as_json, enc_hook=nested)
