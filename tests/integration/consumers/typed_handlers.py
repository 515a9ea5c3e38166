"""Typed handlers of child processes. The tests do not import this module."""

from dataclasses import dataclass
from decimal import Decimal

from pydantic import BaseModel, field_serializer

from kafka_redelivery import Batch, Context


@dataclass
class Order:
    id: int
    amount: Decimal


class Receipt(BaseModel):
    order: Order
    attempt: int
    origin: str

    @field_serializer("attempt", when_used="json")
    def _text(self, attempt: int) -> str:
        return f"#{attempt}"


def charge(order: Order, context: Context) -> None:
    """Emit a receipt to two topics."""
    receipt = Receipt(order=order, attempt=context.attempt, origin=context.record.message_id)
    context.send("json", receipt, key=order)
    context.send("other", [receipt])


def charge_together(batch: Batch[Order]) -> None:
    """Emit a receipt for each record, and reject small ones."""
    for record in batch:
        charge(record.value, batch.context(record))
        if record.value.amount < 1:
            batch.reject(record, "too small")
