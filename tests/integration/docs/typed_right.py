"""Typed handlers as users write them: `./dev check` finds no error in them."""

# ruff: noqa: D103 - each function is an example

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kafka_redelivery import Ack, Batch, Context, DeadLetter, HandlerKit, JsonCodec, Record


@dataclass
class Order:
    id: int
    note: str | None = None


def of_a_record(record: Record[Order], context: Context) -> None:
    note: str = record.value.note or record.message_id
    context.send("receipts", record.value, key=note)


def of_a_value(order: Order, context: Context) -> None:
    key: bytes | None = context.record.raw_key
    context.send("receipts", {"order": order.id}, key=key)


def of_tombstones(record: Record[Order | None]) -> None:
    assert record.value is None or record.value.id


def of_batches(batch: Batch[Order]) -> None:
    for record in batch:
        note: str | None = record.value.note
        batch.send(record, "receipts", note)
    batch.retry(batch[0], after=timedelta(seconds=1))
    batch.fail(batch[0], ValueError("no"))


async def of_anything(record: Record) -> None:
    value: dict[str, Any] = record.value
    value["id"] += 1


class Shop:
    def __call__(self, order: Order) -> None: ...


def decided(kit: HandlerKit) -> str:
    decision = kit.deliver(Order(1))[-1].decision
    if isinstance(decision, DeadLetter):
        return decision.reason
    assert isinstance(decision, Ack)
    return ""


KITS = [HandlerKit(each, value=JsonCodec()) for each in (of_a_record, of_a_value, of_tombstones, of_anything, Shop)]
TOGETHER = HandlerKit(of_batches, value=JsonCodec()).deliver_batch([Order(1), Order(2)], keys=[b"1", b"2"])
