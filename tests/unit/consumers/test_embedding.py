"""How a program and the worker in it start and end together. The worker is a stand-in; scenarios have the real one."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from kafka_redelivery import App
from kafka_redelivery.consumers import embedding
from kafka_redelivery.consumers.embedding import Definition, Running
from kafka_redelivery.consumers.errors import AlreadyRunningError, HaltedError, HandlerLoadError
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.metrics import measurements
from kafka_redelivery.topology.config.loading import load_settings

SETTINGS = load_settings(
    "{group: billing, kafka: {bootstrap.servers: 'localhost:1'}, sources: [{topic: orders}], "
    "limits: {shutdownTimeout: 1s, rebalanceTimeout: 1s}}"
)
WAIT_S = 10.0


class StandIn:
    """Runs until it is stopped or told to fail."""

    def __init__(self) -> None:
        self.opening: BaseException | None = None
        self.opened = threading.Event()
        self.opened.set()
        self.hangs = False
        self.runs = 0
        self.stopped = threading.Event()
        self._error: BaseException | None = None
        self._ends = threading.Event()

    def run(self) -> None:
        """Work."""
        self.runs += 1
        assert self._ends.wait(WAIT_S)
        self._ends.clear()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Request the end."""
        self.stopped.set()
        if not self.hangs:
            self._ends.set()

    def fail(self, error: BaseException) -> None:
        """End with an error."""
        self._error = error
        self._ends.set()

    def end(self) -> None:
        """End in any case."""
        self._ends.set()


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, StandIn]]:
    """The stand-ins of worker and scheduler."""
    found = {"worker": StandIn(), "scheduler": StandIn()}

    def opens(role: str) -> Callable[..., Any]:
        @contextmanager
        def opened(_run: object, health: Health) -> Iterator[tuple[Any, StandIn]]:
            part = found[role]
            assert part.opened.wait(WAIT_S)
            if part.opening is not None:
                raise part.opening
            health.joined()
            yield SimpleNamespace(observer=measurements(SETTINGS, role, "one")), part

        return opened

    for role in found:
        monkeypatch.setattr(embedding._Run, f"_{role}", opens(role))
    yield found
    for part in found.values():
        part.end()


def running(*, scheduler: bool = False) -> Running:
    """Return what runs the stand-ins."""
    return Running(lambda: Definition(SETTINGS, Path(), {}), scheduler=scheduler)


def test_a_block_runs_worker_and_scheduler(parts: dict[str, StandIn]) -> None:
    """Signals stay those of the program, and the same object can be entered again."""
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    found = running(scheduler=True)
    assert (found.health.alive().ok, found.health.ready()) == (True, (False, "not running"))
    for turn in (1, 2):
        with found as same:
            assert same is found
            assert found.health.ready() == (True, "ready")
            assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
            with pytest.raises(AlreadyRunningError, match="it runs already"), found:
                pass
        assert [part.runs for part in parts.values()] == [turn, turn]
        assert (found.failed, found.health.ready().ok) == (None, False)


@pytest.mark.usefixtures("parts")
def test_metrics_of_both_roles_are_in_one_registry() -> None:
    """Also after the end, because the last values may not have been collected."""
    found = running(scheduler=True)
    assert list(found.collector.collect()) == []
    with found:
        pass
    registry = CollectorRegistry()
    registry.register(found.collector)
    text = generate_latest(registry).decode()
    assert 'role="worker"' in text
    assert 'role="scheduler"' in text


def test_what_cannot_start_raises_at_the_begin(parts: dict[str, StandIn]) -> None:
    """The other part is stopped."""
    parts["scheduler"].opening = HandlerLoadError("a:b", "is missing", "add it")
    with pytest.raises(HandlerLoadError, match="is missing"), running(scheduler=True):
        pytest.fail("the block must not begin")
    assert parts["worker"].stopped.is_set()


def test_a_failure_is_raised_at_the_end_of_the_block(parts: dict[str, StandIn]) -> None:
    """Or by wait(). Until then probes tell it."""
    found = running(scheduler=True)
    with pytest.raises(HaltedError, match="no slot"), found:  # noqa: PT012
        parts["worker"].fail(HaltedError("no slot"))
        assert parts["scheduler"].stopped.wait(WAIT_S)
        assert isinstance(found.failed, HaltedError)
        assert found.health.alive() == (False, "worker: ended by HaltedError")
    assert found.health.alive().ok is False
    assert isinstance(found.failed, HaltedError)
    parts["worker"] = StandIn()
    with pytest.raises(HaltedError, match="later"), running() as again:  # noqa: PT012
        parts["worker"].fail(HaltedError("later"))
        again.wait()
        pytest.fail("wait() raises it")


def test_an_error_of_the_block_is_raised_and_stops_the_worker(parts: dict[str, StandIn]) -> None:
    """As it is."""
    with pytest.raises(KeyError, match="mine"), running():
        raise KeyError("mine")
    assert parts["worker"].stopped.is_set()


def test_a_worker_that_does_not_stop_is_left_in_time(
    parts: dict[str, StandIn], caplog: pytest.LogCaptureFixture
) -> None:
    """With both kinds of blocks."""
    parts["worker"].hangs = True
    with running():
        pass
    assert "not stopped within 1s; Kafka delivers uncommitted records again" in caplog.messages
    parts["worker"].end()
    caplog.clear()
    parts["worker"] = StandIn()
    parts["worker"].hangs = True

    async def main() -> None:
        async with running():
            pass

    asyncio.run(main())
    assert "not stopped within 1s; Kafka delivers uncommitted records again" in caplog.messages


def test_stop_ends_a_wait(parts: dict[str, StandIn]) -> None:
    """It is what a signal handler calls."""
    with running(scheduler=True) as found:
        threading.Timer(0.1, found.stop).start()
        found.wait()
        assert all(part.stopped.is_set() for part in parts.values())


def test_a_fork_leaves_the_block_alone(parts: dict[str, StandIn]) -> None:
    """It has neither the threads nor the clients."""
    with running() as found:
        process = found._process_id
        found._process_id = os.getpid() + 1
        found.__exit__(None, None, None)
        assert not parts["worker"].stopped.is_set()
        found._process_id = process


def test_a_failure_cancels_the_block_of_a_task(parts: dict[str, StandIn]) -> None:
    """Its task goes on afterwards, as with a task group."""

    async def main() -> str:
        with pytest.raises(HaltedError, match="no slot"):  # noqa: PT012
            async with running(scheduler=True):
                parts["worker"].fail(HaltedError("no slot"))
                await asyncio.sleep(WAIT_S)
                pytest.fail("the sleep is cancelled")
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0)
        return "went on"

    assert asyncio.run(main()) == "went on"


def test_a_failure_at_the_end_of_the_block_is_raised(parts: dict[str, StandIn]) -> None:
    """Whether the cancellation arrives before or after the end; the task is not left cancelled."""

    async def main() -> None:
        for blocked_s in (0.0, 0.2):
            parts["worker"] = StandIn()
            with pytest.raises(HaltedError):  # noqa: PT012
                async with running():
                    parts["worker"].fail(HaltedError("no slot"))
                    threading.Event().wait(blocked_s)
            await asyncio.sleep(0.01)

    asyncio.run(main())


def test_a_cancelled_block_stops_the_worker_first(parts: dict[str, StandIn]) -> None:
    """Further cancellations do not cut the shutdown short."""
    parts["worker"].hangs = True
    ended = []

    async def block() -> None:
        try:
            async with running():
                await asyncio.sleep(WAIT_S)
        finally:
            ended.append(parts["worker"].stopped.is_set())

    async def main() -> None:
        task = asyncio.create_task(block())
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.sleep(0.1)
        assert ended == []
        parts["worker"].end()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ended == [True]


def test_a_start_that_is_cancelled_is_undone(parts: dict[str, StandIn]) -> None:
    """The block never begins."""
    parts["worker"].opened.clear()

    async def main() -> None:
        task = asyncio.create_task(running().__aenter__())
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.sleep(0.1)
        parts["worker"].opened.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert parts["worker"].stopped.is_set()


def test_an_error_of_a_cancelled_block_is_the_one_raised(parts: dict[str, StandIn]) -> None:
    """What the block raises itself is not replaced."""

    async def main() -> None:
        with pytest.raises(KeyError, match="mine"):  # noqa: PT012
            async with running():
                parts["worker"].fail(HaltedError("no slot"))
                try:
                    await asyncio.sleep(WAIT_S)
                except asyncio.CancelledError:
                    raise KeyError("mine") from None

    asyncio.run(main())


@pytest.mark.parametrize("mounted", ["", "/redelivery"])
@pytest.mark.usefixtures("parts")
def test_probes_and_metrics_for_an_asgi_server(mounted: str) -> None:
    """Also below a path."""
    found = running()

    async def get(path: str) -> tuple[int, str]:
        sent: list[Any] = []

        async def receive() -> Any:  # noqa: ANN401 - a message
            return {"type": "http.request", "body": b""}

        async def send(message: Any) -> None:  # noqa: ANN401
            sent.append(message)

        scope = {
            "type": "http",
            "method": "GET",
            "path": mounted + path,
            "root_path": mounted,
            "query_string": b"",
            "headers": [],
        }
        await found.asgi(scope, receive, send)
        return sent[0]["status"], sent[1]["body"].decode()

    async def main() -> None:
        assert await get("/readyz") == (503, "not running\n")
        async with found:
            assert await get("/readyz") == (200, "ready\n")
            assert await get("/healthz") == (200, "alive\n")
            status, text = await get("/metrics")
            assert (status, 'group="billing"' in text) == (200, True)

    asyncio.run(main())


@pytest.mark.usefixtures("parts")
def test_the_same_for_a_wsgi_server() -> None:
    """Which calls it in threads."""
    found = running()

    def get(path: str) -> tuple[str, str]:
        status: list[str] = []
        environment: dict[str, Any] = {}
        setup_testing_defaults(environment)
        body = b"".join(found.wsgi(environment | {"PATH_INFO": path}, lambda text, *_: status.append(text)))  # type: ignore[arg-type]
        return status[0], body.decode()

    assert get("/readyz") == ("503 Service Unavailable", "not running\n")
    with found:
        assert get("/readyz") == ("200 OK", "ready\n")
        status, text = get("/metrics")
        assert (status, 'group="billing"' in text) == ("200 OK", True)


def test_a_child_process_starts_no_app(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has imported the program to call a handler, and must not start it once more."""
    monkeypatch.setenv("_REDELIVERY_CHILD", str(os.getpid()))
    app = App(group="billing", kafka={}, sources=["orders"])
    with pytest.raises(HandlerLoadError, match="start it below `if __name__"), app.running():
        pass
    with pytest.raises(HandlerLoadError, match="start it below `if __name__"):
        app.run()
