"""An asynchronous handler: the same outcomes, and the deadline."""

import asyncio
from datetime import timedelta

import pytest

from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.consumers.handlers.processor import SLICE_S, Processor
from kafka_redelivery.consumers.handlers.record import Context, Record, Redeliver, Reject
from kafka_redelivery.serdes.codec import JsonCodec
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.transport.protocols import ProducerRecord
from tests.unit.consumers.failing_handlers import never_called, only_failure, run
from tests.unit.consumers.records import NOW, item, lineage, ready, record, redelivery, route, source

SOON = timedelta(milliseconds=10)


def test_success_with_outputs() -> None:
    """The outcome is the same as with a plain function."""

    async def handle(record: Record, context: Context) -> None:
        await asyncio.sleep(0)
        context.send("log", record.value["n"])

    given = run(
        handle, record(0, b'{"n":"1"}'), of=source(route(value=JsonCodec())), outputs={"log": (JsonCodec(),) * 2}
    )
    assert given.outputs == [(0, [ProducerRecord("log", None, None, b'"1"', [])])]
    assert (given.position, len(given.seconds)) == (1, 1)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError(), FailureKind.RAISED),
        (TimeoutError("of the database"), FailureKind.RAISED),
        (asyncio.CancelledError(), FailureKind.RAISED),
        (Redeliver(), FailureKind.REDELIVER),
        (Reject(), FailureKind.REJECTED),
        (MemoryError(), FailureKind.CRITICAL),
        (KeyboardInterrupt(), FailureKind.CRITICAL),
        (SystemExit(1), FailureKind.RAISED),
        (GeneratorExit(), FailureKind.RAISED),
    ],
    ids=lambda case: type(case).__name__,
)
def test_each_exception_is_one_kind_of_failure(error: BaseException, kind: FailureKind) -> None:
    """This includes exceptions that asyncio treats specially."""

    async def handle(_: Record, context: Context) -> None:
        context.send("log", b"half")
        raise error

    given = run(handle, record(0), deadline=timedelta(seconds=60))
    assert only_failure(given).kind is kind
    assert given.outputs == []


def test_a_deadline_cancels_the_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may clean up, its outputs are dropped, and the next record is handled."""
    monkeypatch.setattr("kafka_redelivery.consumers.handlers.processor.SLICE_S", 60.0)
    cleaned_up = []

    async def handle(record: Record, context: Context) -> None:
        context.send("log", b"half")
        if record.offset == 0:
            try:
                await asyncio.Event().wait()
            finally:
                cleaned_up.append(record.offset)

    given = run(handle, record(0), record(1), deadline=SOON)
    assert given.failures == [
        (0, Failure(FailureKind.DEADLINE, "DeadlineExceeded", "the handler took longer than 0.01 s"))
    ]
    assert cleaned_up == [0]
    assert [index for index, _ in given.outputs] == [1]


def test_what_a_cancelled_handler_raises_does_not_hide_the_deadline() -> None:
    """The failure is the deadline, not the error of the clean-up."""

    async def handle(_: Record) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("could not clean up")

    assert only_failure(run(handle, record(0), deadline=SOON)).kind is FailureKind.DEADLINE


def test_a_timeout_of_the_handlers_own_is_not_the_deadline() -> None:
    """The handler limits a call of its own."""

    async def handle(_: Record) -> None:
        async with asyncio.timeout(0.001):
            await asyncio.Event().wait()

    failure = only_failure(run(handle, record(0), deadline=timedelta(seconds=60)))
    assert (failure.kind, failure.exception) == (FailureKind.RAISED, "TimeoutError")


def test_without_a_deadline_nothing_is_cancelled() -> None:
    """This is the default."""

    async def handle(_: Record) -> None:
        await asyncio.sleep(0.02)

    assert not run(handle, record(0)).failures


def test_a_cancelled_slot_stores_no_outcome() -> None:
    """The record was neither handled nor failed: it is delivered again."""
    given = item(source(), [record(0), record(1)])

    async def close_in_the_middle() -> None:
        begun = asyncio.Event()

        async def handle(_: Record) -> None:
            begun.set()
            await asyncio.Event().wait()

        slot = asyncio.create_task(Processor(as_handler(handle), {}, lambda: NOW, None).run_async(given))
        await begun.wait()
        given.abandoned = True  # as AsyncSlots does
        slot.cancel()
        await slot

    asyncio.run(close_in_the_middle())
    assert (given.position, given.failures, given.seconds) == (0, [], [])


@pytest.mark.usefixtures("one_slice")
def test_a_handler_that_cancels_its_own_task_has_failed() -> None:
    """The record behind it is handled in the same task, with its deadline."""

    async def handle(record: Record) -> None:
        if record.offset == 0:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        await asyncio.sleep(0 if record.offset < 2 else 60)

    given = run(handle, *map(record, range(3)), deadline=timedelta(seconds=1))
    assert [(index, failure.kind) for index, failure in given.failures] == [
        (0, FailureKind.RAISED),
        (2, FailureKind.DEADLINE),
    ]
    assert given.position == 3


def test_a_forgotten_await_is_a_critical_failure() -> None:
    """The coroutine that the handler returned has not run."""

    async def inner(_: Record) -> None:
        raise AssertionError("nobody waits for it")

    async def handle(record: Record) -> object:
        return inner(record)

    assert only_failure(run(handle, record(0))).kind is FailureKind.CRITICAL


@pytest.mark.usefixtures("one_slice")
def test_undecodable_bytes_do_not_reach_the_handler() -> None:
    """The next record is handled."""

    async def handle(record: Record) -> None:
        if record.value is None:
            never_called(record)

    given = run(handle, record(0, b"{"), record(1, b"1"), of=source(route(value=JsonCodec())))
    assert [(index, failure.kind) for index, failure in given.failures] == [(0, FailureKind.UNDECODABLE)]
    assert given.position == 2


def test_no_record_is_started_after_a_critical_failure() -> None:
    """The worker is about to halt."""

    async def handle(_: Record) -> None:
        raise MemoryError

    assert run(handle, record(0), record(1)).position == 1


def test_lateness_counts_from_the_due_time() -> None:
    """As with a plain function."""

    async def handle(_: Record) -> None:
        pass

    assert run(handle, redelivery(0, lineage(), due_ms=NOW - 7), of=ready()).lateness == [(0, 7)]


def test_an_item_returns_when_its_time_slice_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The remaining records are handled later."""
    now_s = 100.0
    monkeypatch.setattr("kafka_redelivery.consumers.handlers.processor.monotonic_s", lambda: now_s)

    async def slow(_: Record) -> None:
        nonlocal now_s
        now_s += SLICE_S * 2

    assert run(slow, record(0), record(1)).position == 1


@pytest.mark.parametrize(("asked", "noted"), [("stop", 1), ("abandoned", 0)])
def test_an_item_that_is_stopped_or_abandoned_starts_no_record(asked: str, noted: int) -> None:
    """The current outcome is stored after a stop, and ignored after an abandonment."""
    given = item(source(), [record(0), record(1)])
    called = []

    async def handle(record: Record) -> None:
        called.append(record.offset)
        setattr(given, asked, True)

    asyncio.run(Processor(as_handler(handle), {}, lambda: NOW, None).run_async(given))
    assert called == [0]
    assert given.position == noted
