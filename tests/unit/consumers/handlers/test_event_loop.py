"""The event loop of a handler goes on whatever its tasks raise, and leaves what it has entered when it is closed."""

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, closing
from typing import Any

import pytest

from kafka_redelivery.consumers.flow.work_item import FinishedItems
from kafka_redelivery.consumers.handlers import event_loop
from kafka_redelivery.consumers.handlers.event_loop import HandlerLoop
from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.handlers.record import Record
from kafka_redelivery.consumers.handlers.slots import open_slots
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from tests.scenarios.waiting import until
from tests.unit.consumers.failing_handlers import run
from tests.unit.consumers.records import NOW, item, record, source

EXITED = Failure(FailureKind.RAISED, "SystemExit", "3")


async def leave() -> None:
    """What a library does with bad input."""
    await asyncio.sleep(0)
    sys.exit(3)


async def gathered() -> None:
    """Beside a task that ends well."""
    await asyncio.gather(leave(), asyncio.sleep(0))


async def grouped() -> None:
    """Beside a task that ends well."""
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(0))
        group.create_task(leave())


async def caught() -> None:
    """The handler itself deals with it."""
    with pytest.raises(SystemExit):
        await gathered()


async def called_back() -> None:
    """No task has it as its outcome."""
    asyncio.get_running_loop().call_soon(sys.exit, 3)
    await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("act", "failure"),
    [(leave, EXITED), (gathered, EXITED), (grouped, EXITED), (caught, None), (called_back, None)],
    ids=lambda each: getattr(each, "__name__", ""),
)
@pytest.mark.parametrize("threaded", [True, False])
def test_an_exit_ends_no_loop(act: Callable[[], Awaitable[None]], failure: Failure | None, *, threaded: bool) -> None:
    """It fails the record whose handler raises it. Those behind it and beside it are handled."""

    async def handle(record: Record) -> None:
        if record.offset == 0:
            await act()
        await asyncio.sleep(0.001)

    handler = as_handler(handle)
    processor = Processor(handler, {}, lambda: NOW, None)
    items = [item(source(), (record(0),)), item(source(), (record(1),)), item(source(), (record(2),))]
    if threaded:
        done = FinishedItems()
        slots = open_slots(handler, 2, processor, done)
        with closing(handler.loop):
            for each in items:
                slots.submit(each)
            for _ in items:
                assert done.get(timeout=20) is not None
            slots.close(10)
    else:
        with closing(HandlerLoop(threaded=False)) as loop:
            for each in items:
                loop.run(processor.run_async(each))
    assert [each.position for each in items] == [1, 1, 1]
    assert [each.failures for each in items] == [[] if failure is None else [(0, failure)], [], []]


def test_an_interrupt_in_a_task_is_critical() -> None:
    """The worker halts as if the handler itself had raised it; the loop does not leave it waiting for an outcome."""

    async def interrupt() -> None:
        raise KeyboardInterrupt

    async def handle(_: Record) -> None:
        await asyncio.gather(interrupt(), asyncio.sleep(0))

    handler, done, given = as_handler(handle), FinishedItems(), item(source(), (record(0), record(1)))
    slots = open_slots(handler, 1, Processor(handler, {}, lambda: NOW, None), done)
    with closing(handler.loop):
        slots.submit(given)
        assert done.get(timeout=20) is given
        slots.close(10)
    assert given.failures == [(0, Failure(FailureKind.CRITICAL, "KeyboardInterrupt", ""))]
    assert given.position == 1


def test_slots_that_close_leave_a_record_without_outcome() -> None:
    """The handler does not return in time. Its record is neither handled nor failed."""
    begun = threading.Event()

    async def handle(_: Record) -> None:
        begun.set()
        await asyncio.Event().wait()

    handler, done, given = as_handler(handle), FinishedItems(), item(source(), (record(0),))
    slots = open_slots(handler, 1, Processor(handler, {}, lambda: NOW, None), done)
    with closing(handler.loop):
        slots.submit(given)
        assert begun.wait(20)
        slots.close(0.01)
        assert done.get(timeout=20) is given
    assert (given.position, given.failures) == (0, [])


@pytest.mark.parametrize("threaded", [True, False])
def test_one_task_enters_and_leaves(*, threaded: bool) -> None:
    """A task group needs that. What it runs is cancelled when the loop is closed."""
    tasks: list[object] = []
    ended: list[str] = []

    async def background() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("background")

    @asynccontextmanager
    async def resource() -> Any:  # noqa: ANN401 - an iterator
        tasks.append(asyncio.current_task())
        async with asyncio.TaskGroup() as group:
            task = group.create_task(background())
            yield "open"
            tasks.append(asyncio.current_task())
            task.cancel()
        ended.append("left")

    with closing(HandlerLoop(threaded=threaded)) as loop:
        assert loop.enter(resource()) == "open"
        assert ended == []
    assert tasks[0] is tasks[1]
    assert ended == ["background", "left"]
    loop.close()  # again


@pytest.mark.parametrize("threaded", [True, False])
def test_handlers_that_share_a_loop_are_left_in_turn(*, threaded: bool) -> None:
    """The last one first, and the others also if one of them raises."""
    steps: list[str] = []

    @asynccontextmanager
    async def resource(name: str) -> Any:  # noqa: ANN401 - an iterator
        async with asyncio.TaskGroup():
            steps.append(f"enter {name}")
            yield name
            steps.append(f"leave {name}")
            if name == "b":
                raise ConnectionError(name)

    loop = HandlerLoop(threaded=threaded)
    assert [loop.enter(resource(name)) for name in "abc"] == ["a", "b", "c"]
    with pytest.raises(ExceptionGroup):
        loop.close()
    assert steps == ["enter a", "enter b", "enter c", "leave c", "leave b", "leave a"]


def test_a_resource_that_ends_by_itself_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A task in its group fails. The error is raised when the loop is closed, like any of a context manager."""
    fail = asyncio.Event()

    async def background() -> None:
        await fail.wait()
        raise ConnectionError("not said")

    @asynccontextmanager
    async def resource() -> Any:  # noqa: ANN401 - an iterator
        async with asyncio.TaskGroup() as group:
            group.create_task(background())
            yield

    loop = HandlerLoop()
    loop.enter(resource())
    asyncio_loop = loop.started()
    asyncio_loop.call_soon_threadsafe(fail.set)
    until(lambda: caplog.messages, "it is logged at once")
    with pytest.raises(ExceptionGroup):
        loop.close()
    assert caplog.messages == ["what the handler has opened was closed before the handler's end: ExceptionGroup"]
    assert asyncio_loop.is_closed()


def test_a_blocked_loop_does_not_hinder_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A handler blocks it. The process ends without it."""
    monkeypatch.setattr(event_loop, "_ANSWER_S", 0.1)
    begun, gate = threading.Event(), threading.Event()

    def block() -> None:
        begun.set()
        gate.wait()

    loop = HandlerLoop()
    loop.started().call_soon_threadsafe(block)
    assert begun.wait(20)
    loop.close()
    assert "blocks its event loop" in caplog.text
    gate.set()
    monkeypatch.undo()
    loop.close()


def test_a_plain_handler_starts_no_loop() -> None:
    """It costs nothing."""
    before = threading.active_count()
    run(lambda _: None, record(0))
    handler = as_handler(lambda _: None)
    handler.loop.close()
    assert threading.active_count() == before
