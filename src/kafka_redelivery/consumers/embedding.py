"""A worker, and a scheduler if it is wanted, in threads of a program that does other things, too.

The program keeps its signals, its event loop and its exit. So nothing here sets a signal handler, ends the process or
changes the garbage collection, as a process of its own does.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import AlreadyRunningError
from kafka_redelivery.consumers.handlers.child import refuse_in_child
from kafka_redelivery.consumers.handlers.host_loop import HostLoop
from kafka_redelivery.consumers.process.lifecycle import Process, start_part
from kafka_redelivery.consumers.process.shared_name import shared_instance
from kafka_redelivery.consumers.scheduler.run import open_scheduler
from kafka_redelivery.consumers.telemetry.endpoint import ASGIApplication, asgi_application, serve, wsgi_application
from kafka_redelivery.consumers.telemetry.health import Health, ProbeResult
from kafka_redelivery.consumers.telemetry.metrics import Measurements, Together
from kafka_redelivery.consumers.telemetry.observers import report_halts
from kafka_redelivery.consumers.worker.run import load_parts, log_start, open_worker
from kafka_redelivery.topology.config.settings import MetricsSection, Settings
from kafka_redelivery.topology.durations import format_duration

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

_log = logging.getLogger(__name__)

_WAIT_S: Final = 0.2
"""A wait is cut into such pieces. Before Python 3.13 a longer one may never end if a signal interrupts it."""


@dataclass(frozen=True, slots=True)
class Definition:
    """What is to run."""

    settings: Settings
    base: Path
    """The folder to which paths are relative, and in which handlers are that are named."""

    given: Mapping[str, object]
    """Handlers and classes by the names that the settings have; all others are imported."""


class _Runs(Protocol):
    def run(self) -> None: ...

    def stop(self) -> None: ...


_Open = Callable[[Health], AbstractContextManager[tuple[Process, _Runs]]]


class _Part:
    """A worker or a scheduler in a thread of its own."""

    def __init__(self, role: str, settings: Settings, open_part: _Open, changed: Callable[[], None]) -> None:
        self.role = role
        self.health = Health(settings.metrics.stalled_after)
        self.observer: Measurements | None = None
        self.started = self.ended = False
        self.error: BaseException | None = None
        self._group = settings.group
        self._open, self._changed = open_part, changed
        self._runs: _Runs | None = None
        self._stopping = False

    def start(self) -> None:
        # A daemon: a shutdown that hangs must not keep the program from ending.
        threading.Thread(target=self._work, name=f"redelivery-{self.role}", daemon=True).start()

    def stop(self) -> None:
        """Request a graceful shutdown, also while it starts."""
        self._stopping = True
        if self._runs is not None:
            self._runs.stop()

    def _work(self) -> None:
        try:
            with self._open(self.health) as (process, self._runs):
                self.observer = process.observer
                if self._stopping:  # stop() was called before there was anything to stop
                    self._runs.stop()
                self.started = True
                self._changed()
                with report_halts(process.observer):
                    self._runs.run()
        except BaseException as error:  # noqa: BLE001 - raised in the thread of the program
            if self.started:
                _log.error("the %s of group %s has ended: %s: %s", self.role, self._group, type(error).__name__, error)
            self.error = error
        finally:
            self.ended = True
            self._changed()


class _Run:
    """One time that an App runs, from its start to its end."""

    def __init__(
        self,
        definition: Definition,
        *,
        scheduler: bool,
        host: HostLoop | None,
        endpoint: Callable[[MetricsSection], AbstractContextManager[None]],
        changed: Callable[[], None],
    ) -> None:
        """Prepare.

        Args:
            definition: what is to run.
            scheduler: whether a scheduler runs, too.
            host: the loop for asynchronous handlers; ``None``: each has its own.
            endpoint: serves metrics and probes, if a port is configured.
            changed: called, by any thread, when a part has started or ended.
        """
        self._definition, self._host, self._endpoint = definition, host, endpoint
        self._changed = changed
        self._timeout = definition.settings.limits.shutdown_timeout
        self._deadline_s: float | None = None
        self._changes = threading.Condition()
        opened: dict[str, _Open] = {"worker": self._worker}
        if scheduler:
            opened["scheduler"] = self._scheduler
        self.parts = [_Part(role, definition.settings, each, self._notify) for role, each in opened.items()]

    def start(self) -> None:
        for part in self.parts:
            part.start()

    @property
    def started(self) -> bool:
        """Whether each part runs, or one has ended."""
        return all(part.started for part in self.parts) or any(part.ended for part in self.parts)

    @property
    def ended(self) -> bool:
        return all(part.ended for part in self.parts)

    @property
    def error(self) -> BaseException | None:
        return next((part.error for part in self.parts if part.error is not None), None)

    @property
    def left_s(self) -> float:
        """Seconds that the shutdown may still take; it begins with the first call of :meth:`stop`."""
        return self._timeout.total_seconds() if self._deadline_s is None else self._deadline_s - monotonic_s()

    @property
    def over(self) -> bool:
        """Whether each part has ended, or the shutdown may take no longer."""
        return self.ended or self.left_s <= 0

    def stop(self) -> None:
        """Request a graceful shutdown. Safe in a signal handler and from any thread."""
        if self._deadline_s is None:
            self._deadline_s = monotonic_s() + self._timeout.total_seconds()
        for part in self.parts:
            part.stop()

    def wait(self, until: Callable[[], bool]) -> None:
        with self._changes:
            while not until():
                self._changes.wait(_WAIT_S)

    def report_unfinished(self) -> None:
        """Log that the shutdown has not ended in time. What it leaves ends with the process."""
        if not self.ended:
            text = "not stopped within %s; Kafka delivers uncommitted records again"
            _log.error(text, format_duration(self._timeout))

    def _notify(self) -> None:
        if self.error is not None:
            self.stop()
        with self._changes:
            self._changes.notify_all()
        self._changed()

    @contextmanager
    def _worker(self, health: Health) -> Iterator[tuple[Process, _Runs]]:
        settings, host = self._definition.settings, self._host
        with ExitStack() as stack:
            stack.enter_context(self._endpoint(settings.metrics))
            if host is not None:
                stack.callback(host.close)
            parts = load_parts(settings, self._definition.base, stack, self._definition.given, host)
            instance = stack.enter_context(shared_instance(settings, "worker"))
            process = stack.enter_context(start_part(settings, "worker", instance, health))
            if host is not None:
                stack.enter_context(host.watched(health))
            worker = stack.enter_context(open_worker(parts, process))
            log_start(parts, process)
            yield process, worker

    @contextmanager
    def _scheduler(self, health: Health) -> Iterator[tuple[Process, _Runs]]:
        settings = self._definition.settings
        with (
            shared_instance(settings, "scheduler") as instance,
            start_part(settings, "scheduler", instance, health) as process,
            open_scheduler(settings, instance, health, process.observer, process.pauses) as scheduler,
        ):
            yield process, scheduler


class RunningHealth:
    """Whether what runs is alive and ready, for the probes of the program."""

    def __init__(self) -> None:
        self._run: _Run | None = None

    def alive(self) -> ProbeResult:
        """Not ok if a worker or scheduler hangs or has failed, so that only a restart of the program helps."""
        return self._of_parts(Health.alive, ProbeResult(ok=True, reason="not running"))

    def ready(self) -> ProbeResult:
        """Not ok before the start and after it, and as long as a worker or scheduler is not a member of its group."""
        return self._of_parts(Health.ready, ProbeResult(ok=False, reason="not running"))

    def follow(self, run: _Run | None) -> None:
        """Answer for this run."""
        self._run = run

    def _of_parts(self, probe: Callable[[Health], ProbeResult], without: ProbeResult) -> ProbeResult:
        run = self._run
        if run is None:
            return without
        found = [(part, _failed(part) or probe(part.health)) for part in run.parts]
        bad = [f"{part.role}: {result.reason}" for part, result in found if not result.ok]
        if bad:
            return ProbeResult(ok=False, reason="\n".join(bad))
        lines = dict.fromkeys(line for _, result in found for line in result.reason.splitlines())
        return ProbeResult(ok=True, reason="\n".join(lines))


def _failed(part: _Part) -> ProbeResult | None:
    return None if part.error is None else ProbeResult(ok=False, reason=f"ended by {type(part.error).__name__}")


class RunningCollector(Collector):
    """The metrics of what runs, for a registry of the program. After the end they keep their last values."""

    def __init__(self) -> None:
        self._run: _Run | None = None

    def follow(self, run: _Run) -> None:
        """Return the metrics of this run."""
        self._run = run

    def collect(self) -> Iterator[Metric]:
        """Yield the families of the catalogue; none before the first start."""
        observers = [] if self._run is None else [part.observer for part in self._run.parts]
        return Together(*filter(None, observers)).collect()


class Running:
    """An App that runs while the block of a ``with`` or ``async with`` statement runs; see :meth:`App.running`.

    It can be entered again after its end.
    """

    def __init__(self, definition: Callable[[], Definition], *, scheduler: bool) -> None:
        """Prepare.

        Args:
            definition: returns what is to run; called when the block is entered.
            scheduler: whether a scheduler runs, too.
        """
        self._define = definition
        self._with_scheduler = scheduler
        self._run: _Run | None = None
        self._process_id = 0
        self._failed: BaseException | None = None
        self.health = RunningHealth()
        """``alive()`` and ``ready()``, each with ``ok`` and ``reason``."""

        self.collector = RunningCollector()
        """A collector for a registry of ``prometheus_client``."""

        self._host: HostLoop | None = None
        self._changed = asyncio.Event()
        self._body: asyncio.Task[object] | None = None
        """The task that runs the block, while it does."""

        self._cancelled: asyncio.Task[object] | None = None
        """The task that was cancelled because a part has failed."""

    @cached_property
    def asgi(self) -> ASGIApplication:
        """An ASGI application with ``/metrics``, ``/healthz`` and ``/readyz``, to be mounted in that of the program."""
        return asgi_application(self.collector, self.health)

    @cached_property
    def wsgi(self) -> WSGIApplication:
        """The same as a WSGI application."""
        return wsgi_application(self.collector, self.health)

    @property
    def failed(self) -> BaseException | None:
        """The error that has ended the worker or the scheduler; ``None`` if neither has failed."""
        return self._failed if self._run is None else self._run.error

    def stop(self) -> None:
        """Request the end, so that :meth:`wait` returns. Safe in a signal handler and from any thread."""
        if self._run is not None:
            self._run.stop()

    def wait(self) -> None:
        """Wait for the end: after :meth:`stop`, or because the worker or the scheduler fails. Not for an event loop.

        Raises:
            HaltedError, TransportError: what has ended the worker or the scheduler.
        """
        run = self._run
        if run is not None:
            run.wait(lambda: run.over)
            if run.error is not None:
                raise run.error

    def __enter__(self) -> Self:
        run = self._begin(None)
        try:
            run.wait(lambda: run.started)
        except BaseException:
            self._stop(run)
            raise
        if run.error is not None:
            self._stop(run)
            raise run.error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        run = self._run
        if run is None or self._process_id != os.getpid():  # a fork of the program leaves the block, too
            return
        self._stop(run)
        if error is None and run.error is not None:
            raise run.error

    async def __aenter__(self) -> Self:
        host = HostLoop()
        try:
            run = self._begin(host)
        except BaseException:
            host.end()
            raise
        try:
            await self._until(lambda: run.started)
        except BaseException:
            await self._stop_async(run)
            raise
        if run.error is not None:
            await self._stop_async(run)
            raise run.error
        self._body, self._cancelled = asyncio.current_task(), None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        run = self._run
        if run is None or self._process_id != os.getpid():
            return
        self._body, cancelled = None, self._cancelled
        if cancelled is not None and error is None:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)  # the block has ended before it was cancelled: that happens here
        interrupted = await self._stop_async(run)
        ours = cancelled is not None and cancelled is asyncio.current_task()
        if ours and cancelled is not None:
            interrupted = cancelled.uncancel() > 0
        if error is None and interrupted:
            raise asyncio.CancelledError
        mine = error is None or (ours and not interrupted and isinstance(error, asyncio.CancelledError))
        if mine and run.error is not None:
            raise run.error

    def _begin(self, host: HostLoop | None) -> _Run:
        refuse_in_child()
        if self._run is not None:
            raise AlreadyRunningError("it runs already; call running() once more for another one")
        self._failed, self._host, self._process_id = None, host, os.getpid()
        self._changed = asyncio.Event()
        run = self._run = _Run(
            self._define(),
            scheduler=self._with_scheduler,
            host=host,
            endpoint=partial(serve, collector=self.collector, health=self.health),
            changed=self._wake,
        )
        self.health.follow(run)
        self.collector.follow(run)
        run.start()
        return run

    def _stop(self, run: _Run) -> None:
        run.stop()
        try:
            run.wait(lambda: run.over)
        finally:
            self._end(run)

    async def _stop_async(self, run: _Run) -> bool:
        """Return whether the program has cancelled its task meanwhile; the shutdown goes on nevertheless."""
        run.stop()
        interrupted = False
        while not run.over:
            try:
                await self._until(lambda: run.over, run.left_s)
            except asyncio.CancelledError:
                interrupted = True
        self._end(run)
        return interrupted

    def _end(self, run: _Run) -> None:
        run.report_unfinished()
        self._failed, self._run = run.error, None
        if run.error is None:
            self.health.follow(None)
        if self._host is not None:
            self._host.end()

    async def _until(self, condition: Callable[[], bool], timeout_s: float | None = None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()

    def _wake(self) -> None:
        if self._host is not None:
            self._host.call(self._on_change)

    def _on_change(self) -> None:
        """Wake what waits; and cancel the block when a part has failed, as a task group does."""
        self._changed.set()
        body = self._body
        if body is not None and self.failed is not None and not body.done():
            self._body, self._cancelled = None, body
            body.cancel("the worker has failed")
