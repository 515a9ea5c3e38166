"""Charges orders. A handler is a plain function."""

import json
from typing import Any
from urllib.request import Request, urlopen

from kafka_redelivery import Context, Record, Reject

BANK = "http://localhost:8099/charges"


def charge(record: Record, context: Context) -> None:
    """Charge one order. If it returns, the order is acknowledged; if it raises, the policy redelivers the order."""
    order = record.value
    if order["amount"] < 0:
        raise Reject("a negative amount")  # no redelivery could succeed: a dead letter at once
    receipt = pay(order, record.message_id)
    context.send("receipts", receipt, key=record.raw_key)  # written only if this function succeeds


def pay(order: dict[str, Any], identity: str) -> dict[str, Any]:
    """Charge an order at the bank; raises ``URLError`` while it is closed.

    The bank is not part of the Kafka transaction, so it may be called again for the same order. ``identity`` is the
    same at each attempt, so the bank charges once.
    """
    headers = {"Content-Type": "application/json", "Idempotency-Key": identity}
    with urlopen(Request(BANK, json.dumps(order).encode(), headers), timeout=5) as answer:
        receipt: dict[str, Any] = json.load(answer)
        return receipt
