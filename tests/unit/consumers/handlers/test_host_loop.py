"""The event loop of a program with a worker in it: what blocks it is reported, and is no fault of a handler."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from kafka_redelivery.consumers import running_time
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers import host_loop
from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.consumers.handlers.host_loop import HostLoop
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.handlers.record import Record
from kafka_redelivery.consumers.telemetry.health import Health
from tests.unit.consumers.records import NOW, item, record, source

DEADLINE = timedelta(seconds=0.5)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A blocked loop is noticed sooner."""
    monkeypatch.setattr(running_time, "FROZEN_S", 0.3)
    monkeypatch.setattr(host_loop, "TICK_S", 0.05)
    monkeypatch.setattr(running_time, "TICK_S", 0.05)
    monkeypatch.setattr(host_loop, "_BLOCKED_S", 0.3)
    monkeypatch.setattr(host_loop, "_LOOK_S", 0.05)


async def handled(handle: Callable[[Record], Awaitable[None]], host: HostLoop) -> WorkItem:
    """Handle one record on the loop of the program."""
    given = item(source(), [record(0)])
    handler = replace(as_handler(handle), loop=host)
    await Processor(handler, {}, lambda: NOW, DEADLINE).run_async(given)
    return given


def test_a_blocked_loop_is_reported_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    """Until it runs again."""
    caplog.set_level("INFO")
    health = Health()
    health.joined()

    async def main() -> None:
        host = HostLoop()
        await asyncio.sleep(0.1)
        with host.watched(health):
            time.sleep(1.0)  # noqa: ASYNC251 - the fault
            text = health.ready().reason
            assert "the event loop of the program is blocked, and async handlers wait: " in text
            assert f"{__file__}:" in text
            assert "(test_a_blocked_loop_is_reported_with_its_place.<locals>.main)" in text
            assert "asyncio" not in text
            await asyncio.sleep(0.5)
            assert health.ready().reason == "ready"
        host.end()

    asyncio.run(main())
    assert caplog.messages[-1] == "the event loop of the program runs again"


def test_time_in_which_the_loop_is_blocked_is_not_the_handlers() -> None:
    """Its deadline passes only after it could run for so long."""

    async def handle(_: Record) -> None:
        await asyncio.sleep(0.3)

    async def late(_: Record) -> None:
        await asyncio.sleep(60)

    async def main() -> None:
        host = HostLoop()
        await asyncio.sleep(0.1)
        task = asyncio.create_task(handled(handle, host))
        await asyncio.sleep(0.1)
        time.sleep(1.0)  # noqa: ASYNC251 - the fault
        assert host.seconds_ago(0.5) < time.monotonic() - 1.0
        done = await task
        assert (done.position, done.failures) == (1, [])
        done = await handled(late, host)
        assert [failure.exception for _, failure in done.failures] == ["DeadlineExceeded"]
        host.end()

    asyncio.run(main())


def test_a_handler_that_is_cancelled_with_the_loop_has_not_failed() -> None:
    """Its record has no outcome, and is delivered again."""
    given = []

    async def handle(_: Record) -> None:
        await asyncio.sleep(60)

    async def work(host: HostLoop) -> None:
        given.append(await handled(handle, host))

    async def main() -> None:
        host = HostLoop()
        running = asyncio.create_task(work(host))
        await asyncio.sleep(0.1)
        assert not running.done()

    asyncio.run(main())
    assert [(each.position, each.failures) for each in given] == [(0, [])]
    assert given[0].held == "the program ends its event loop"


def test_a_handler_that_cancels_itself_has_failed() -> None:
    """As on a loop of its own."""

    async def handle(_: Record) -> None:
        raise asyncio.CancelledError

    async def main() -> WorkItem:
        host = HostLoop()
        try:
            return await handled(handle, host)
        finally:
            host.end()

    done = asyncio.run(main())
    assert [failure.exception for _, failure in done.failures] == ["CancelledError"]


def test_what_a_handler_opens_is_opened_and_closed_on_the_loop() -> None:
    """From another thread, in one task."""
    seen: list[object] = []

    class Resource:
        async def __aenter__(self) -> str:
            seen.append((asyncio.get_running_loop(), asyncio.current_task()))
            return "entered"

        async def __aexit__(self, *_: object) -> None:
            seen.append((asyncio.get_running_loop(), asyncio.current_task()))

    async def main() -> None:
        host = HostLoop()
        assert host.started() is asyncio.get_running_loop()
        assert await asyncio.to_thread(partial(host.enter, Resource())) == "entered"
        await asyncio.to_thread(host.close)
        await asyncio.to_thread(host.close)
        assert seen[0] == seen[1]
        assert len(seen) == 2
        host.end()

    asyncio.run(main())
