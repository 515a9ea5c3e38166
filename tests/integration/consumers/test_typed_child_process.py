"""With isolation: process the types of the user are needed in the child alone, where its code is."""

from __future__ import annotations

import sys
from decimal import Decimal

from kafka_redelivery.consumers.handlers.batch import Batch
from kafka_redelivery.consumers.handlers.calls import Formats
from kafka_redelivery.consumers.handlers.child_process_pool import ChildProcessPool
from kafka_redelivery.consumers.handlers.record import Context, Record
from kafka_redelivery.topology.config.settings import BatchSection, HandlerSection
from kafka_redelivery.topology.policy.decision import Failure, FailureDetails, FailureKind

HANDLERS = "tests.integration.consumers.typed_handlers"


def test_values_are_converted_in_the_child_in_both_directions() -> None:
    """The parent gets plain values, as JSON where they are written as such, and the failure of a value."""
    section = HandlerSection(callable=f"{HANDLERS}:charge", value=f"{HANDLERS}:Order")
    children = ChildProcessPool(section, FailureDetails.CLASS_ONLY, Formats("", {"json": (False, True)}))
    try:
        handler, context = children.handler(), Context(1, [])
        handler.call(_record({"id": 1, "amount": "2.50"}), context)
        order = {"id": 1, "amount": Decimal("2.50")}
        text = {"order": {"id": 1, "amount": "2.50"}, "attempt": "#2", "origin": "orders-0@7"}
        plain = {"order": order, "attempt": 2, "origin": "orders-0@7"}
        assert [(each.topic, each.key, each.value) for each in context.outputs] == [
            ("json", order, text),
            ("other", None, [plain]),
        ]
        try:
            handler.call(_record({"id": "card-4711", "amount": 1}), Context(0, []))
        except Exception as error:  # noqa: BLE001 - as the processor does
            failure = handler.failure(error)
    finally:
        children.close()
    assert failure == Failure(FailureKind.INVALID_VALUE, "InvalidValueError", "$.id: int_parsing")
    assert HANDLERS not in sys.modules


def test_the_values_of_a_batch_are_converted_there_too() -> None:
    """Those that do not fit are not part of it. It is given to the child as one message."""
    section = HandlerSection(callable=f"{HANDLERS}:charge_together", batch=BatchSection())
    children = ChildProcessPool(section, FailureDetails.CLASS_ONLY, Formats("", {"json": (False, True)}))
    batch: Batch = Batch([_record({"id": n, "amount": amount}) for n, amount in enumerate([2, "card-4711", 0, 3])])
    try:
        handler = children.handler()
        handler.call(batch)
        failures = {index: handler.failure(error) for index, error in batch.errors.items()}
    finally:
        children.close()
    assert {index: failure.kind for index, failure in failures.items()} == {
        1: FailureKind.INVALID_VALUE,
        2: FailureKind.REJECTED,
    }
    outputs = {index: context.outputs for index, context in batch.contexts.items() if context.outputs}
    assert sorted(outputs) == [0, 3]
    assert [each.key["id"] for each in (outputs[0][0], outputs[3][0])] == [0, 3]


def _record(value: object) -> Record:
    return Record("orders", 0, 7, None, value, None, b"", (), 0)
