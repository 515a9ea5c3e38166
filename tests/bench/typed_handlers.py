"""Handlers that take the same order as a dict, a Protobuf message, and as each kind of type."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

import msgspec
from pydantic import BaseModel
from typing_extensions import TypedDict

from kafka_redelivery import Record
from tests.bench.handlers import Measured


@dataclass
class Line:
    sku: str
    number: int


@dataclass
class Order:
    n: int
    customer: str
    amount: Decimal
    at: datetime
    lines: list[Line]
    note: str


class OrderModel(BaseModel):
    n: int
    customer: str
    amount: Decimal
    at: datetime
    lines: list[Line]
    note: str


class OrderDict(TypedDict):
    n: int
    customer: str
    amount: Decimal
    at: datetime
    lines: list[Line]
    note: str


class OrderStruct(msgspec.Struct):
    n: int
    customer: str
    amount: Decimal
    at: datetime
    lines: list[Line]
    note: str


class PassesJson(Measured):
    def __call__(self, record: Record) -> None:
        self.tally.note(b"%d" % record.value["n"])


class PassesMessage(Measured):
    def __call__(self, record: Record) -> None:
        self.tally.note(b"%d" % record.value.n)


class PassesDataclass(Measured):
    def __call__(self, order: Order) -> None:
        self.tally.note(b"%d" % order.n)


class PassesModel(Measured):
    def __call__(self, order: OrderModel) -> None:
        self.tally.note(b"%d" % order.n)


class PassesTypedDict(Measured):
    def __call__(self, order: OrderDict) -> None:
        self.tally.note(b"%d" % order["n"])


class PassesStruct(Measured):
    def __call__(self, order: OrderStruct) -> None:
        self.tally.note(b"%d" % order.n)
