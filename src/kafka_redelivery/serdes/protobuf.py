"""Protobuf in the wire format of schema registries: a schema id, which message of the schema it is, and the message.

Only this module and :mod:`serdes.protobuf_plain` need the ``protobuf`` extra.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from google.protobuf import descriptor_pb2, json_format
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError as NotParsed
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from kafka_redelivery.serdes.errors import (
    DecodeCode,
    DecodeError,
    EncodeCode,
    EncodeError,
    NotIdenticalError,
    SchemaError,
)
from kafka_redelivery.serdes.framing import HEADER, SchemaId, header_id_of, schema_id_of, short
from kafka_redelivery.serdes.objects import plain
from kafka_redelivery.serdes.protobuf_plain import message_of
from kafka_redelivery.serdes.registry import SchemaKind
from kafka_redelivery.serdes.schemas import KnownSchemas, SchemaSource, WithSchemas, content_of, written_id

MessageClass: TypeAlias = type[Message]

_MAX_LEVELS: Final = 100
"""How deep a message type may be defined in others; Protobuf itself reads no deeper value."""

_MAX_INDEX_BYTES: Final = 5
_BUNDLED: Final = re.compile(r"((?:google/(?:protobuf|type)|confluent(?:/types?)?)/\w+)\.proto")
"""Files that writers do not register, because every client has them."""


class ProtobufSchema:
    """A ``.proto`` file, whose messages can be read and written."""

    def __init__(self, file: Any) -> None:  # noqa: ANN401 - a FileDescriptor; each implementation has its own
        self._file = file

    def at(self, path: tuple[int, ...]) -> MessageClass:
        """Return the message at a path: the index in the file, then that in the message around it, and so on.

        Raises:
            IndexError: there is none.
        """
        types: Sequence[Descriptor] = list(self._file.message_types_by_name.values())
        found: Descriptor | None = None
        for index in path:
            found = types[index]
            types = found.nested_types
        if found is None:
            raise IndexError("an empty path")
        return GetMessageClass(found)

    def path_of(self, name: str | None) -> tuple[int, ...]:
        """Return the path of the message with a full name; ``None`` is the first one of the file.

        Raises:
            SchemaError: there is none.
        """
        if name is None:
            if not self._file.message_types_by_name:
                raise SchemaError(self._file.name, "has no message")
            return (0,)
        waiting: list[tuple[tuple[int, ...], Descriptor]] = [
            ((index,), each) for index, each in enumerate(self._file.message_types_by_name.values())
        ]
        names = []
        while waiting:
            path, message = waiting.pop(0)
            if message.full_name == name:
                return path
            names.append(message.full_name)
            waiting += [((*path, index), each) for index, each in enumerate(message.nested_types)]
        raise SchemaError(self._file.name, f"has no message {name}, only {', '.join(names)}")


def _built(file: descriptor_pb2.FileDescriptorProto, imports: Mapping[str, bytes], location: str) -> ProtobufSchema:
    """Build a file with all that it imports, in a pool of its own.

    Raises:
        SchemaError: a file is missing or faulty.
    """
    pool = DescriptorPool()
    begun: set[str] = set()

    def add(each: descriptor_pb2.FileDescriptorProto) -> None:
        for name in each.dependency:
            if name in begun:
                continue
            begun.add(name)
            data = imports[name] if name in imports else _bundled(name)
            if data is None:
                raise SchemaError(location, f"imports {name}, which is not among its references")
            inner = descriptor_pb2.FileDescriptorProto.FromString(data)
            inner.name = name
            add(inner)
        pool.AddSerializedFile(each.SerializeToString())

    file.name = file.name or "default"
    begun.add(file.name)
    try:
        add(file)
        return ProtobufSchema(pool.FindFileByName(file.name))
    except (NotParsed, TypeError, KeyError, RecursionError) as error:
        raise SchemaError(location, f"is not a usable Protobuf schema: {short(error)}") from error


def _bundled(name: str) -> bytes | None:
    found = _BUNDLED.fullmatch(name)
    if found is None:
        return None
    package = "confluent_kafka.schema_registry." if name.startswith("confluent/") else ""
    try:
        module = import_module(f"{package}{found[1].replace('/', '.')}_pb2")
    except ImportError:
        return None
    data: bytes = module.DESCRIPTOR.serialized_pb
    return data


def _read_registered(text: str, references: Mapping[str, str], location: str) -> ProtobufSchema:
    file = descriptor_pb2.FileDescriptorProto()
    try:
        file.ParseFromString(base64.b64decode(text, validate=True))
        imports = {name: base64.b64decode(each, validate=True) for name, each in references.items()}
    except (ValueError, NotParsed) as error:
        # The same registry would answer the same for each schema: no fault of the record.
        raise ValueError("the registry does not return Protobuf schemas with format=serialized") from error
    return _built(file, imports, location)


PROTOBUF: Final = SchemaKind("PROTOBUF", _read_registered, "serialized")


def schema_in_set(path: Path) -> ProtobufSchema:
    """Return the last file of a descriptor set, as ``protoc --include_imports --descriptor_set_out`` writes it.

    Raises:
        SchemaError: the file cannot be read, or is no descriptor set.
    """
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(content_of(path)).file
    except NotParsed as error:
        raise SchemaError(str(path), "is not a descriptor set; write it with protoc --descriptor_set_out") from error
    if not files:
        raise SchemaError(str(path), "is empty; write it with protoc --include_imports --descriptor_set_out")
    return _built(files[-1], {each.name: each.SerializeToString() for each in files[:-1]}, str(path))


class ProtobufCodec(WithSchemas[ProtobufSchema]):
    """Codec for Protobuf messages, each with the id of the schema that it was written with.

    A decoded value is a message of the ``protobuf`` package: ``record.value.amount``. Fields that the schema does not
    know are kept. A handler gets a generated class, or a dataclass or model, if it declares one.

    A message with the full name of the write message is encoded as it is; dicts, dataclasses, pydantic models and
    msgspec structs become one. Their names are those of the ``.proto`` file, their values those of its types.
    """

    name = "protobuf"

    def __init__(
        self,
        source: SchemaSource[ProtobufSchema],
        *,
        write_id: int | None = None,
        subject: str | None = None,
        message: str | None = None,
        in_header: bool = False,
    ) -> None:
        """Create the codec. Schemas are looked up when a record needs them.

        ``message`` is the full name of the message to encode, such as ``shop.Order``; ``None`` = the first one of the
        schema. The other arguments are those of the base.
        """
        super().__init__(source, write_id, subject, in_header=in_header)
        self._message = message
        self._reading: dict[bytes, MessageClass] = {}
        """The message of what stands before it."""

        self._writing: tuple[bytes, MessageClass] | None = None

    @classmethod
    def of(cls, schemas: Mapping[int, MessageClass | Path], *, write_id: int | None = None) -> Self:
        """Create a codec from schemas, without a registry.

        Args:
            schemas: the schema of each id, as a generated class, which is then also what is written, or as the path of
                a descriptor set.
            write_id: encode with the schema of this id; by default with the only one.

        Raises:
            SchemaError: a schema cannot be read or used, or ``write_id`` is not among the ids.
        """
        write_id = written_id(schemas, write_id)
        known = {
            schema_id: schema_in_set(each) if isinstance(each, Path) else ProtobufSchema(each.DESCRIPTOR.file)
            for schema_id, each in schemas.items()
        }
        written = None if write_id is None else schemas[write_id]
        message = None if written is None or isinstance(written, Path) else written.DESCRIPTOR.full_name
        return cls(KnownSchemas(known), write_id=write_id, message=message)

    def decode(self, data: bytes | None, header: bytes | None = None, /) -> Message | None:
        """Decode the message.

        Raises:
            DecodeError: the bytes are not in the wire format or no message of their schema, or the schema of their id
                is missing or unusable, or has no such message.
            SchemaSourceUnavailable: the schema cannot be looked up at present.
        """
        if data is None:
            return None
        frame, start = self._frame(data, header)
        kind = self._reading.get(frame)
        if kind is None:
            kind = self._reading[frame] = self._prepare_reading(frame)
        try:
            message = kind.FromString(data[start:])
        except NotParsed as error:
            code = DecodeCode.TOO_DEEP if "MaxDepth" in str(error) else DecodeCode.SCHEMA_MISMATCH
            raise DecodeError(self.name, code, str(error), _id_in(frame)) from error
        if not message.IsInitialized():
            missing = ", ".join(message.FindInitializationErrors())  # type: ignore[attr-defined] # each has it
            raise DecodeError(self.name, DecodeCode.SCHEMA_MISMATCH, f"lacks required fields: {missing}", _id_in(frame))
        return message

    def encode(self, value: object) -> bytes | None:
        """Encode a message, or what becomes one.

        Raises:
            EncodeError: the value does not fit the write message, or there is no usable write schema.
            SchemaSourceUnavailable: the write schema cannot be looked up at present.
        """
        if value is None:
            return None
        if self._writing is None:
            self._writing = self._to_write(self._prepare_writing)
        prefix, kind = self._writing
        try:
            return prefix + _message_of(value, kind).SerializeToString()
        except MemoryError:
            raise
        except _WrongType as error:
            raise EncodeError(self.name, EncodeCode.WRONG_TYPE, str(error)) from error
        except Exception as error:  # protobuf raises many errors, and the value's own class any other
            raise EncodeError(self.name, EncodeCode.SCHEMA_MISMATCH, short(error)) from error

    def text_of(self, data: bytes, header: bytes | None = None) -> str:
        """Return a value as Protobuf's JSON, in which 64-bit numbers are texts.

        Raises:
            DecodeError, SchemaSourceUnavailable: as :meth:`decode`.
            NotIdenticalError: JSON cannot represent all of it.
        """
        message = self.decode(data, header)
        assert message is not None  # noqa: S101 - data is no tombstone
        try:
            text = json_format.MessageToJson(
                message,
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
                ensure_ascii=False,
                descriptor_pool=_pool(message),
            )
        except (json_format.Error, ValueError, TypeError, KeyError) as error:
            raise NotIdenticalError(self.name, short(error)) from error
        if _canonical(self._parsed(text, data, header)) != _canonical(message):
            raise NotIdenticalError(self.name, "it has fields that its schema does not know, which an edit would lose")
        return text

    def from_text(self, text: str, original: bytes, header: bytes | None = None) -> bytes:
        """Return the bytes of an edited value, with the schema and the message of the original.

        Raises:
            EncodeError: it is not a value of the schema; the error names the place.
        """
        message = self._parsed(text, original, header)
        if message.IsInitialized() and _canonical(message) == _canonical(self.decode(original, header)):
            return original  # its writer may have written the fields, or the items of a map, in another order
        try:
            return original[: self._frame(original, header)[1]] + message.SerializeToString()
        except Exception as error:  # a required field is missing
            raise EncodeError(self.name, EncodeCode.SCHEMA_MISMATCH, short(error)) from error

    def _parsed(self, text: str, original: bytes, header: bytes | None) -> Message:
        kind = self._reading[self._frame(original, header)[0]]
        if not text.lstrip().startswith("{") and not kind.DESCRIPTOR.full_name.startswith("google.protobuf."):
            raise EncodeError(self.name, EncodeCode.SCHEMA_MISMATCH, "is not a JSON object")
        try:
            found: Message = json_format.Parse(text, kind(), descriptor_pool=_pool(kind))
        except (json_format.Error, ValueError, TypeError, KeyError, RecursionError) as error:
            raise EncodeError(self.name, EncodeCode.SCHEMA_MISMATCH, short(error)) from error
        return found

    def _frame(self, data: bytes, header: bytes | None) -> tuple[bytes, int]:
        """Return what says the schema and the message of a record, and where the message starts."""
        if header is None:
            schema_id_of(self.name, data)
            end = self._end(data, HEADER.size)
            return data[:end], end
        end = self._end(header, header_id_of(self.name, header)[1])
        return header[:end], 0

    def _end(self, data: bytes, at: int) -> int:
        """Return where the indexes of a message end."""
        if data[at : at + 1] == b"\0":
            return at + 1  # the first message of its schema
        count, at = self._index(data, at)
        if not 0 <= count <= _MAX_LEVELS:
            raise DecodeError(self.name, DecodeCode.SCHEMA_MISMATCH, f"names a message {count} levels deep")
        for _ in range(count):
            _, at = self._index(data, at)
        return at

    def _index(self, data: bytes, at: int) -> tuple[int, int]:
        """Return a number in zigzag encoding, and where it ends."""
        number = 0
        for place, byte in enumerate(data[at : at + _MAX_INDEX_BYTES]):
            number |= (byte & 0x7F) << 7 * place
            if byte < 0x80:  # noqa: PLR2004 - the last byte of a number
                return (number >> 1) ^ -(number & 1), at + place + 1
        if len(data) < at + _MAX_INDEX_BYTES:
            raise DecodeError(self.name, DecodeCode.TRUNCATED, "ends within the indexes of its message")
        raise DecodeError(self.name, DecodeCode.SCHEMA_MISMATCH, "the index of its message is no 32-bit number")

    def _prepare_reading(self, frame: bytes) -> MessageClass:
        schema_id, at = header_id_of(self.name, frame)
        path = self._path(frame, at)
        try:
            return self._read_schema(schema_id).at(path)
        except IndexError:
            problem = f"names the message {'.'.join(map(str, path))}, which its schema does not have"
            raise DecodeError(self.name, DecodeCode.SCHEMA_MISMATCH, problem, schema_id) from None

    def _path(self, frame: bytes, at: int) -> tuple[int, ...]:
        count, at = self._index(frame, at)
        path = []
        for _ in range(count):
            index, at = self._index(frame, at)
            path.append(index)
        if any(index < 0 for index in path):
            raise DecodeError(self.name, DecodeCode.SCHEMA_MISMATCH, "the index of its message is negative")
        return tuple(path) or (0,)

    def _prepare_writing(self) -> tuple[bytes, MessageClass]:
        schema_id, schema = self._write_schema()
        path = schema.path_of(self._message)
        return self._prefix(schema_id, _indexes(path)), schema.at(path)


def _canonical(message: Message | None) -> bytes:
    """Return bytes that are the same for equal messages. Unlike ``==`` they also compare NaN."""
    return b"" if message is None else message.SerializeToString(deterministic=True)


def _pool(message: Message | MessageClass) -> Any:  # noqa: ANN401 - each implementation has its own
    """Return the messages that an ``Any`` can have: those of the same schema."""
    return message.DESCRIPTOR.file.pool


class _WrongType(Exception):  # noqa: N818 - told apart from what protobuf raises
    pass


def _message_of(value: object, kind: MessageClass) -> Message:
    if isinstance(value, Message):
        if value.DESCRIPTOR.full_name != kind.DESCRIPTOR.full_name:
            raise _WrongType(f"needs a {kind.DESCRIPTOR.full_name}, got a {value.DESCRIPTOR.full_name}")
        return value
    fields = plain(value)
    if not isinstance(fields, dict):
        raise _WrongType(f"needs a message, a dict or an object with fields, got {type(value).__name__}")
    try:
        return kind(**fields)
    except (TypeError, ValueError):
        return message_of(fields, kind)


def _id_in(frame: bytes) -> SchemaId:
    return header_id_of(ProtobufCodec.name, frame)[0]


def _indexes(path: tuple[int, ...]) -> bytes:
    if path == (0,):
        return b"\0"
    return b"".join(map(_zigzag, (len(path), *path)))


def _zigzag(number: int) -> bytes:
    number <<= 1  # none is negative
    found = bytearray()
    while number > 0x7F:  # noqa: PLR2004 - the last byte of a number
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))
