"""Charge orders: a plain function is all there is to a handler."""

import json
from typing import Any
from urllib.request import Request, urlopen

from kafka_redelivery import Context, Record, Reject

BANK = "http://localhost:8099/charges"


def charge(record: Record, context: Context) -> None:
    """Charge one order. Returning acknowledges it; raising has it delivered again, as the policy says."""
    order = record.value
    if order["amount"] < 0:
        raise Reject("a negative amount")  # no later delivery could succeed: a dead letter at once
    receipt = pay(order, record.message_id)
    context.send("receipts", receipt, key=record.raw_key)  # written only if this function succeeds


def pay(order: dict[str, Any], identity: str) -> dict[str, Any]:
    """Ask the bank; raises ``URLError`` while it is down.

    The bank is no part of the Kafka transaction, so it may be asked again. ``identity`` is the same at
    each attempt: with it the bank charges once.
    """
    headers = {"Content-Type": "application/json", "Idempotency-Key": identity}
    with urlopen(Request(BANK, json.dumps(order).encode(), headers), timeout=5) as answer:
        receipt: dict[str, Any] = json.load(answer)
        return receipt
