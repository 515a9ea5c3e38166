"""A .proto file of flights without protoc: presence, a oneof, maps, 64-bit numbers, nested and imported messages.

It stands for:

    syntax = "proto3"; package nyc;
    import "nyc/airport.proto"; import "google/protobuf/timestamp.proto"; import "google/protobuf/struct.proto";
    message Gate { string name = 1; }
    message Flight {
      message Leg { Airport to = 1; optional sint64 delay = 2; repeated Leg more = 3; }
      enum State { PLANNED = 0; GONE = 1; }
      string carrier = 1;  optional int32 number = 2;  int64 distance = 3;  uint64 serial = 4;  bytes tag = 5;
      State state = 6;  Leg leg = 7;  repeated double fares = 8;  map<string, Leg> legs = 9;
      map<int64, string> seats = 10;
      oneof crew { string captain = 11; Gate gate = 12; }
      google.protobuf.Timestamp gone_at = 13;  google.protobuf.Struct extra = 14;
    }
"""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf import struct_pb2, timestamp_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

AIRPORT = FileDescriptorProto(name="nyc/airport.proto", package="nyc", syntax="proto3")
FLIGHT = FileDescriptorProto(
    name="nyc/flight.proto",
    package="nyc",
    syntax="proto3",
    dependency=["nyc/airport.proto", "google/protobuf/timestamp.proto", "google/protobuf/struct.proto"],
)


def _field(message: DescriptorProto, number: int, name: str, kind: int | str, **more: Any) -> Field:  # noqa: ANN401
    more = {"label": Field.LABEL_OPTIONAL, **more}
    if isinstance(kind, str):
        type_ = Field.TYPE_ENUM if kind.endswith("State") else Field.TYPE_MESSAGE
        return message.field.add(name=name, number=number, type=type_, type_name=kind, **more)
    return message.field.add(name=name, number=number, type=kind, **more)


def _optional(message: DescriptorProto, number: int, name: str, kind: int) -> None:
    field = _field(message, number, name, kind, proto3_optional=True)
    message.oneof_decl.add(name=f"_{name}")
    field.oneof_index = len(message.oneof_decl) - 1


def _map(message: DescriptorProto, number: int, name: str, key: int, value: int | str) -> None:
    entry = message.nested_type.add(name=f"{name.title()}Entry")
    entry.options.map_entry = True
    _field(entry, 1, "key", key)
    _field(entry, 2, "value", value)
    _field(message, number, name, f".nyc.Flight.{entry.name}", label=Field.LABEL_REPEATED)


def _fill() -> None:
    airport = AIRPORT.message_type.add(name="Airport")
    _field(airport, 1, "code", Field.TYPE_STRING)
    gate = FLIGHT.message_type.add(name="Gate")
    _field(gate, 1, "name", Field.TYPE_STRING)
    flight = FLIGHT.message_type.add(name="Flight")
    flight.oneof_decl.add(name="crew")
    leg = flight.nested_type.add(name="Leg")
    _field(leg, 1, "to", ".nyc.Airport")
    _optional(leg, 2, "delay", Field.TYPE_SINT64)
    _field(leg, 3, "more", ".nyc.Flight.Leg", label=Field.LABEL_REPEATED)
    state = flight.enum_type.add(name="State")
    state.value.add(name="PLANNED", number=0)
    state.value.add(name="GONE", number=1)
    _field(flight, 1, "carrier", Field.TYPE_STRING)
    _field(flight, 3, "distance", Field.TYPE_INT64)
    _field(flight, 4, "serial", Field.TYPE_UINT64)
    _field(flight, 5, "tag", Field.TYPE_BYTES)
    _field(flight, 6, "state", ".nyc.Flight.State")
    _field(flight, 7, "leg", ".nyc.Flight.Leg")
    _field(flight, 8, "fares", Field.TYPE_DOUBLE, label=Field.LABEL_REPEATED)
    _map(flight, 9, "legs", Field.TYPE_STRING, ".nyc.Flight.Leg")
    _map(flight, 10, "seats", Field.TYPE_INT64, Field.TYPE_STRING)
    _field(flight, 11, "captain", Field.TYPE_STRING, oneof_index=0)
    _field(flight, 12, "gate", ".nyc.Gate", oneof_index=0)
    _field(flight, 13, "gone_at", ".google.protobuf.Timestamp")
    _field(flight, 14, "extra", ".google.protobuf.Struct")
    _optional(flight, 2, "number", Field.TYPE_INT32)


_fill()
_POOL = DescriptorPool()
for _file in (timestamp_pb2.DESCRIPTOR, struct_pb2.DESCRIPTOR):
    _POOL.AddSerializedFile(_file.serialized_pb)
for _own in (AIRPORT, FLIGHT):
    _POOL.AddSerializedFile(_own.SerializeToString())

Flight: Any = GetMessageClass(_POOL.FindMessageTypeByName("nyc.Flight"))
"""The class that protoc would generate."""

Gate: Any = GetMessageClass(_POOL.FindMessageTypeByName("nyc.Gate"))
HEADER = b"\0\0\0\0\x07\x02\x02"
"""Of a Flight with schema id 7: it is the second message of its file."""

DESCRIPTOR_SET = FileDescriptorSet(
    file=[
        FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb),
        FileDescriptorProto.FromString(struct_pb2.DESCRIPTOR.serialized_pb),
        AIRPORT,
        FLIGHT,
    ]
).SerializeToString()
"""What protoc --include_imports --descriptor_set_out writes."""


def registered(file: FileDescriptorProto) -> str:
    """Return a file as a registry returns it."""
    return base64.b64encode(file.SerializeToString()).decode()
