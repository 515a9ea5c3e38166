"""Put your handler here. If it needs packages, build an image with them instead (docs/deploy.md)."""

from kafka_redelivery import Context, Record, Reject


def charge(record: Record, context: Context) -> None:
    """Send a receipt for each order."""
    order = record.value
    if order["amount"] < 0:
        raise Reject("a negative amount")
    context.send("receipts", {"order": order["id"], "amount": order["amount"]}, key=record.raw_key)
