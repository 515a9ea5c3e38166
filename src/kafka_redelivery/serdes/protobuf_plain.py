"""Protobuf messages as plain values of Python, and back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

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
        return "message", field.message_type
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


def message_of(fields: Mapping[str, Any], kind: type[Message]) -> Message:
    """Return the message of plain values, as :func:`plain_message` makes them.

    The class of a message takes most of them itself, and is faster: all but a ``Value``, and times within maps.

    Raises:
        TypeError, ValueError, json_format.Error: a value does not fit its field, or there is no such field.
    """
    types = {name: about for name, *about, _ in _fields(kind.DESCRIPTOR)}
    given = {name: value for name, value in fields.items() if value is not None}
    return kind(**{name: _filled(value, *types.get(name, ("", None))) for name, value in given.items()})


def _filled(value: Any, kind: str, inner: Any) -> Any:  # noqa: ANN401 - as _value
    match kind, value:
        case "list", list() | tuple():
            return [_filled(each, *inner) for each in value]
        case "map", Mapping():
            return {key: _filled(each, *inner) for key, each in value.items()}
        case "message", _ if inner.full_name in _JSON and not isinstance(value, Message):
            return json_format.ParseDict(value, GetMessageClass(inner)())
        case "message", datetime():
            found: Any = GetMessageClass(inner)()
            found.FromDatetime(value)
            return found
        case "message", timedelta():
            found = GetMessageClass(inner)()
            found.FromTimedelta(value)
            return found
        case "message", Mapping():
            return message_of(value, GetMessageClass(inner))
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
