"""Mistakes that types find: `./dev check` reports each `ignore` that no error needs."""

# ruff: noqa: B018, D103 - each line is an example

from dataclasses import dataclass

from kafka_redelivery import Batch, Context, HandlerKit, Record


@dataclass
class Order:
    id: int


def of_a_field(record: Record[Order]) -> None:
    record.value.amount  # type: ignore[attr-defined]


def of_a_tombstone(record: Record[Order | None]) -> None:
    record.value.id  # type: ignore[union-attr]


def of_a_dict(order: Order, context: Context) -> None:
    order["id"]  # type: ignore[index]
    context.send("receipts")  # type: ignore[call-arg]
    context.record.value_type  # type: ignore[attr-defined]


def of_a_batch(batch: Batch[Order], others: Batch[int]) -> None:
    batch[0].value.amount  # type: ignore[attr-defined]
    batch.fail(batch[0], "no")  # type: ignore[arg-type]
    batch.reject(others[0], "no")  # type: ignore[arg-type]


def of_a_kit(kit: HandlerKit) -> None:
    kit.deliver(1)[0].decision.reason  # type: ignore[union-attr]


def other(record: Record[int]) -> None: ...


def passed_on(record: Record[Order]) -> None:
    other(record)  # type: ignore[arg-type]
