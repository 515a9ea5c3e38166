"""Put your own here. A handler with packages of its own is layered into an image instead (docs/deploy.md)."""

from kafka_redelivery import Context, Record, Reject


def charge(record: Record, context: Context) -> None:
    """Acknowledge every order with a receipt."""
    order = record.value
    if order["amount"] < 0:
        raise Reject("a negative amount")
    context.send("receipts", {"order": order["id"], "amount": order["amount"]}, key=record.raw_key)
