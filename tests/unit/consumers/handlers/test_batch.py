"""What a handler may ask of its batch, and how a batch handler is recognised."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial, wraps
from pathlib import Path
from typing import Any

import pytest

import kafka_redelivery
from kafka_redelivery import Ack, App, Batch, Context, DeadLetter, HandlerKit, JsonCodec, Record, Redeliver, Reject
from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.config.settings import BatchSection


def record(offset: int, value: object = None) -> Record:
    """A record."""
    return Record("orders", 0, offset, None, value, None, None, (), 0)


class TestBatch:
    """Each call names a record."""

    def test_it_is_read_like_a_list(self) -> None:
        records = [record(n) for n in range(3)]
        batch: Batch[object] = Batch(records)
        assert list(batch) == records
        assert (len(batch), batch[1], batch[-1]) == (3, records[1], records[2])

    def test_records_that_are_equal_are_told_apart(self) -> None:
        """A handler may also have changed them."""
        records = [record(1), record(1)]
        batch: Batch[object] = Batch(records)
        records[0].value = {}
        batch.reject(records[1], "no")
        assert list(batch.errors) == [1]

    def test_retry_and_reject_are_the_exceptions_of_single_records(self) -> None:
        records = [record(n) for n in range(2)]
        batch: Batch[object] = Batch(records)
        batch.retry(records[0], "busy", after=timedelta(seconds=3))
        batch.reject(records[1], "no")
        retried, rejected = batch.errors[0], batch.errors[1]
        assert isinstance(retried, Redeliver)
        assert (str(retried), retried.after) == ("busy", timedelta(seconds=3))
        assert isinstance(rejected, Reject)
        assert str(rejected) == "no"

    def test_the_last_word_about_a_record_counts(self) -> None:
        batch: Batch[object] = Batch([record(0)])
        batch.retry(batch[0])
        batch.fail(batch[0], ValueError("worse"))
        assert isinstance(batch.errors[0], ValueError)

    def test_each_record_has_an_attempt_and_outputs_of_its_own(self) -> None:
        batch: Batch[object] = Batch([record(0), record(1)], [0, 4])
        batch.send(batch[1], "out", b"x", key=b"k", headers={"a": b"1"}, partition=2)
        assert [batch.attempt(each) for each in batch] == [1, 5]
        assert [batch.context(each).redelivered for each in batch] == [False, True]
        assert [len(batch.context(each).outputs) for each in batch] == [0, 1]
        [output] = batch.context(batch[1]).outputs
        assert (output.topic, output.value, output.key, output.partition) == ("out", b"x", b"k", 2)

    @pytest.mark.parametrize(
        "call",
        [
            lambda batch, other: batch.fail(other, ValueError()),
            lambda batch, other: batch.retry(other),
            lambda batch, other: batch.reject(other, "no"),
            lambda batch, other: batch.send(other, "out", b""),
            lambda batch, other: batch.attempt(other),
            lambda batch, other: batch.context(other),
        ],
    )
    def test_a_record_of_another_batch_is_refused(self, call: Callable[[Batch[object], Record], object]) -> None:
        """Also if it is equal to one of this batch."""
        with pytest.raises(ValueError, match="orders-0@0' is not a record of this batch"):
            call(Batch([record(0)]), record(0))

    def test_an_error_is_an_exception(self) -> None:
        batch: Batch[object] = Batch([record(0)])
        with pytest.raises(TypeError, match="must be an exception, not 'no'"):
            batch.fail(batch[0], "no")  # type: ignore[arg-type]


def annotated(batch: Batch[Any]) -> None:
    """Says what it takes."""


def bare(batch: Batch) -> None:
    """Does not say of what."""


def through_the_package(batch: kafka_redelivery.Batch) -> None:
    """Names the package."""


@dataclass
class Order:
    """A value."""

    amount: int


def typed(batch: Batch[Order]) -> None:
    """Takes values of a type."""


async def asynchronous(batch: Batch) -> None:
    """Is called in the loop."""


class Bank:
    """Is called with batches."""

    def __call__(self, batch: Batch) -> None:
        """Charge."""

    async def method(self, batch: Batch) -> None:
        """Charge."""


@wraps(annotated)
def decorated(*arguments: Any) -> None:  # noqa: ANN401
    """Keeps the signature."""


def unannotated(batch):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Says nothing."""


class TestRecognition:
    """The annotation says what a handler takes, or the configuration."""

    @pytest.mark.parametrize(
        "function",
        [
            annotated,
            bare,
            through_the_package,
            typed,
            asynchronous,
            Bank(),
            Bank().method,
            partial(annotated),
            decorated,
        ],
    )
    def test_the_annotation_is_enough(self, function: Callable[..., Awaitable[None] | None]) -> None:
        found = as_handler(function)
        assert found.batch
        assert not found.takes_context
        assert as_handler(function, takes="batch").batch

    @pytest.mark.parametrize("function", [unannotated, print, lambda *_: None])
    def test_without_one_the_configuration_decides(self, function: Callable[..., None]) -> None:
        assert not as_handler(function).batch
        assert as_handler(function, takes="batch").batch

    def test_a_handler_of_single_records_is_none(self) -> None:
        def handle(record: Record, context: Context) -> None:
            """Handle."""

        assert not as_handler(handle).batch

    def test_a_handler_of_records_with_a_configuration_for_batches_is_refused(self) -> None:
        def handle(record: Record) -> None:
            """Handle."""

        with pytest.raises(HandlerLoadError, match="in the configuration asks for batches"):
            as_handler(handle, takes="batch")

    def test_a_context_is_refused(self) -> None:
        """Each record has its own."""

        def handle(batch: Batch, context: Context) -> None:
            """Handle."""

        with pytest.raises(HandlerLoadError, match=r"instead of \(batch\).*batch\.context\(record\)"):
            as_handler(handle)


def test_values_that_do_not_fit_the_type_are_not_in_the_batch() -> None:
    """They are dead-lettered without an attempt, also if their batch is handled again one by one."""
    seen: list[list[Order]] = []

    def handle(batch: Batch[Order]) -> None:
        seen.append([record.value for record in batch])
        if len(batch) > 1 and batch[0].value.amount == 5:
            raise ValueError("again")

    kit = HandlerKit(handle, value=JsonCodec())
    for first in (4, 5):
        good, bad, other = kit.deliver_batch([{"amount": first}, {"amount": "many"}, {"amount": 6}])
        assert [each.decision for each in (*good, *other)] == [Ack(), Ack()]
        [delivery] = bad
        assert isinstance(delivery.decision, DeadLetter)
        assert (delivery.decision.reason, delivery.attempt) == ("invalid_value", 0)
        assert delivery.failure is not None
        assert "$.amount" in delivery.failure.message
    assert seen == [[Order(4), Order(6)], [Order(5), Order(6)], [Order(5)], [Order(6)]]


def test_an_unannotated_handler_in_the_kit() -> None:
    """`batch=True` says what an annotation would."""
    seen = []

    def handle(batch):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        seen.append([each.raw_value for each in batch])

    HandlerKit(handle, batch=True).deliver_batch([b"a", b"b"], keys=[b"k", None])
    HandlerKit(handle, batch=True).deliver(b"c")
    assert seen == [[b"a", b"b"], [b"c"]]
    with pytest.raises(ValueError, match="zip"):
        HandlerKit(handle, batch=True).deliver_batch([b"a", b"b"], keys=[b"k"])


def test_a_kit_of_a_configuration_knows_that_its_handler_takes_batches(tmp_path: Path) -> None:
    """The setting is enough, also for a function that is given instead of the configured one."""
    file = tmp_path / "redelivery.yaml"
    file.write_text(
        "group: g\nkafka: {bootstrap.servers: 'a:1'}\nsources: [{topic: orders}]\n"
        f"handler: {{callable: '{__name__}:unannotated', batch: {{}}}}\n",
        encoding="utf-8",
    )
    kit = HandlerKit.from_config(file)
    assert [[each.decision for each in own] for own in kit.deliver_batch([b"a", b"b"])] == [[Ack()], [Ack()]]
    sizes = []

    def another(batch):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        sizes.append(len(batch))

    HandlerKit.from_config(file, handler=another).deliver_batch([b"a", b"b"])
    assert sizes == [2]


def test_an_app_says_the_same_as_a_file() -> None:
    """In both directions."""
    app = App(group="g", kafka={"bootstrap.servers": "a:1"}, environment={})
    app.handler("orders", batch={"records": 10, "wait": "20ms"}, deadline="1s")(bare)
    section = app.settings.handler_of("orders")
    assert section is not None
    assert section.batch == BatchSection(records=10, wait=timedelta(milliseconds=20))
    assert load_settings(app.to_yaml()) == app.settings
