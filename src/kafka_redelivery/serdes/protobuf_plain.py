"""Protobuf messages as plain values of Python."""

from __future__ import annotations

from datetime import UTC
from functools import lru_cache
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

_JSON: Final = frozenset({"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"})
_NONE: Final = object()
"""No well-known type; the ``None`` of one is JSON's null."""

_NANOS: Final = 1000
"""Nanoseconds in the smallest part of a time in Python."""


def plain_message(message: Message) -> Any:  # noqa: ANN401 - a dict, or what stands for a well-known type
    """Return a message as a dict by the names of the ``.proto`` file.

    A field that knows whether it is set is absent if it is not; any other one has its default. Members of enums are
    their names, 64-bit numbers are numbers, and bytes are bytes. A ``Timestamp`` is a datetime in UTC and a
    ``Duration`` a timedelta, if Python can represent them, and otherwise a dict; a ``Struct`` is its JSON. Unknown
    fields are left out.
    """
    found = _well_known(message)
    if found is not _NONE:
        return found
    return {
        name: _value(getattr(message, name), kind, inner)
        for name, kind, inner, presence in _fields(message.DESCRIPTOR)
        if not presence or message.HasField(name)
    }


@lru_cache(1024)
def _fields(descriptor: Descriptor) -> tuple[tuple[str, str, Any, bool], ...]:
    return tuple((each.name, *_kind(each), each.has_presence) for each in descriptor.fields)


def _kind(field: FieldDescriptor) -> tuple[str, Any]:
    if field.is_repeated:
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            return "map", _kind(entry.fields_by_name["value"])
        return "list", _single(field)
    return _single(field)


def _single(field: FieldDescriptor) -> tuple[str, Any]:
    if field.message_type is not None:
        return "message", None
    return ("enum", field.enum_type) if field.enum_type is not None else ("", None)


def _value(value: Any, kind: str, inner: Any) -> Any:  # noqa: ANN401 - any value of a field
    match kind:
        case "message":
            return plain_message(value)
        case "enum":
            return _enum(value, inner)
        case "list":
            return [_value(each, *inner) for each in value]
        case "map":
            return {key: _value(value[key], *inner) for key in value}
    return value


def _enum(number: int, kind: EnumDescriptor) -> str | int:
    found = kind.values_by_number.get(number)
    return number if found is None else found.name


def _well_known(message: Any) -> Any:  # noqa: ANN401 - see plain_message
    name = message.DESCRIPTOR.full_name
    try:
        if name in _JSON:
            return json_format.MessageToDict(message)
        if name == "google.protobuf.Timestamp" and not message.nanos % _NANOS:
            return message.ToDatetime(UTC)
        if name == "google.protobuf.Duration" and not message.nanos % _NANOS:
            return message.ToTimedelta()
    except (json_format.Error, ValueError, OverflowError):
        pass
    return _NONE
