"""Handlers in child processes, so that a record can neither kill its worker nor hold a slot for ever.

Each slot is a thread that sends one record at a time to a child and waits for the result. If the child dies, exactly
the record that it had has failed. At the deadline the parent kills the child.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from contextlib import ExitStack
from multiprocessing.reduction import ForkingPickler
from threading import Condition

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import ConsumersError, HandlerLoadError, HandlerUnavailable
from kafka_redelivery.consumers.handlers.child_main import ChildSetup, HandlerResult
from kafka_redelivery.consumers.handlers.child_process import MAX_WAIT_S, ChildProcess, LoadLimit
from kafka_redelivery.consumers.handlers.handler import Handler, load_handler
from kafka_redelivery.consumers.handlers.processor import deadline_passed
from kafka_redelivery.consumers.handlers.record import Context, Record
from kafka_redelivery.consumers.running_time import seconds_ago
from kafka_redelivery.consumers.telemetry.logs import child_log_format
from kafka_redelivery.topology.config.settings import HandlerSection, Isolation
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.policy.failure_details import FailureDetails

_log = logging.getLogger(__name__)
_MODULE = "kafka_redelivery.consumers.handlers.child_main"
_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s (child %(process)d): %(message)s"
_CLOSING_S = 2.0
"""Time that idle children have to end when the pool is closed."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 10.0
"""Pauses after children that could not be started; each is twice as long as the one before."""


class ChildProcessPool:
    """One child process per slot. Thread-safe: one slot at a time uses a child."""

    def __init__(self, section: HandlerSection, details: FailureDetails = FailureDetails.FULL) -> None:
        """Start the children and wait until each has loaded the handler.

        Args:
            section: the handler, and the number of children.
            details: whether texts of exceptions are logged.

        Raises:
            HandlerLoadError: a child cannot load the handler.
        """
        deadline = section.deadline
        self._deadline_s = None if deadline is None else deadline.total_seconds()
        level, log_format = logging.getLogger().level, child_log_format(_LOG_FORMAT)
        self._setup = ChildSetup(section.callable, section.not_retryable, level, log_format, details)
        self._changed = Condition()
        """Guards all that follows. Notified when a child is idle, or when one cannot be used or started."""

        self._alive = {_PooledChild(_MODULE, self._setup, search_path=sys.path) for _ in range(section.slots)}
        self._idle: deque[_PooledChild] = deque()
        self._number, self._missing, self._starting = section.slots, 0, 0
        """Number of children, of those that are dead, and of those that load the handler after another has died."""

        self._pause_s = self._start_again_s = 0.0
        """Pause after a child could not be started, and when the next one may be (monotonic)."""

        self._problem = ""
        """Why the last child could not be started; empty if it could."""

        self._closed = False
        self._load_limit = LoadLimit()
        try:
            for child in self._alive:
                child.wait_until_ready(section.callable, self._load_limit)
        except HandlerLoadError:
            self.close()
            raise
        self._idle.extend(self._alive)

    def handler(self) -> Handler:
        """Return a handler that the thread of a slot calls like any synchronous function."""
        return _PoolHandler(self._call, takes_context=True, asynchronous=False, details=self._setup.details)

    def close(self) -> None:
        """Let idle children end by themselves within two seconds, and kill the others."""
        with self._changed:
            self._closed = True
            idle, busy = set(self._idle), self._alive - set(self._idle)
            self._idle.clear()
            self._changed.notify_all()
        for child in idle:
            child.leave()
        for child in busy:
            child.kill()  # the slot that waits for it finds it dead
        end_s = monotonic_s() + _CLOSING_S
        for child in idle:
            child.join(max(0.0, end_s - monotonic_s()))

    def _call(self, record: Record, context: Context) -> None:
        try:
            failure = self._deliver(record, context)
        except HandlerUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - no code of the user runs here, so it is our error
            failure = Failure(FailureKind.CRITICAL, type(error).__qualname__, str(error))
        if failure is not None:
            raise _DeliveryFailedError(failure)

    def _deliver(self, record: Record, context: Context) -> Failure | None:
        try:
            delivery = ForkingPickler.dumps((record, context.deliveries))
        except RecursionError as error:
            # A codec can decode a value that is nested too deeply for pickle.
            problem = f"the value is nested too deeply for the process of the handler: {error}"
            return Failure(FailureKind.UNDECODABLE, type(error).__qualname__, problem)
        child = self._send(delivery)
        result = None
        try:
            result = child.result(record, self._deadline_s)
        finally:
            if isinstance(result, HandlerResult):
                self._put_back(child)
            else:
                self._discard(child)
        if isinstance(result, Failure):
            return result
        context.outputs += result.outputs
        return result.failure

    def _send(self, delivery: memoryview) -> _PooledChild:
        """Send a record to a child, and return that child."""
        for _ in range(self._number + 1):
            child = self._take()
            if child.send(delivery):
                return child
            _log.warning("an idle process of the handler died; starting another one")
            self._discard(child)
        raise HandlerUnavailable("the processes of the handler die while they are idle")

    def _take(self) -> _PooledChild:
        """Return an idle child, or a new one if one is missing.

        Raises:
            HandlerUnavailable: there is no child, and none can be started at present; or the pool is closed.
        """
        child = self._idle_child()
        while child is None:
            child = self._start() or self._idle_child()
        return child

    def _idle_child(self) -> _PooledChild | None:
        """Return an idle child, if need be as soon as there is one; ``None``: the caller starts a missing one."""
        with self._changed:
            while not self._closed:
                if self._idle:
                    return self._idle.popleft()
                wait_s = self._start_again_s - monotonic_s() if self._missing else None
                if wait_s is not None and wait_s <= 0:
                    self._missing -= 1
                    self._starting += 1
                    return None
                if self._problem and self._missing + self._starting == self._number:
                    raise HandlerUnavailable(self._problem)
                self._changed.wait(wait_s)
        raise HandlerUnavailable("the processes of the handler are being ended")

    def _start(self) -> _PooledChild | None:
        """Start a child and wait until it has loaded the handler; ``None`` if that is not possible at present."""
        child = None
        try:
            child = _PooledChild(_MODULE, self._setup, search_path=sys.path)
            with self._changed:
                self._alive.add(child)
                closed = self._closed
            if closed:
                child.kill()
            child.wait_until_ready(self._setup.target, self._load_limit)
        except (HandlerLoadError, OSError) as error:
            self._start_failed(child, error)
            return None
        with self._changed:
            self._starting -= 1
            self._pause_s, self._problem = 0.0, ""
        return child

    def _start_failed(self, child: _PooledChild | None, error: Exception) -> None:
        with self._changed:
            if child is not None:
                self._alive.discard(child)
            self._starting -= 1
            self._missing += 1
            self._pause_s = min(max(_FIRST_PAUSE_S, 2 * self._pause_s), _LONGEST_PAUSE_S)
            self._start_again_s = monotonic_s() + self._pause_s
            self._problem = str(error)
            self._changed.notify_all()
            if not self._closed:
                _log.warning("%s; a process of the handler is started again in %g s", error, self._pause_s)

    def _put_back(self, child: _PooledChild) -> None:
        with self._changed:
            self._idle.append(child)
            self._changed.notify()

    def _discard(self, child: _PooledChild) -> None:
        child.kill()
        with self._changed:
            self._alive.discard(child)
            self._missing += 1
            self._changed.notify_all()


def load_as_configured(section: HandlerSection, stack: ExitStack, details: FailureDetails) -> Handler:
    """Load the handler in this process, or in child processes if ``isolation`` asks for them.

    Args:
        section: the handler.
        stack: closed when the handler is not needed any more.
        details: whether texts of exceptions are logged.

    Raises:
        HandlerLoadError: it cannot be loaded.
    """
    if section.isolation is Isolation.NONE:
        return load_handler(section.callable, section.not_retryable, stack, details)
    children = ChildProcessPool(section, details)
    stack.callback(children.close)
    return children.handler()


class _PooledChild(ChildProcess):
    def send(self, delivery: memoryview) -> bool:
        """Send a pickled record with its deliveries. False: the child is dead, and its handler has not seen it."""
        if self.dead:
            return False
        try:
            self._pipe.send_bytes(delivery)
        except OSError:
            return False
        return True

    def result(self, record: Record, deadline_s: float | None) -> HandlerResult | Failure:
        """Wait for the result of the record sent. A bare failure means that the child is dead or must be killed."""
        try:
            if not self._answers(deadline_s):
                return deadline_passed(deadline_s)
            answer = self._pipe.recv_bytes()
        except (EOFError, OSError):
            death = self.death()
            _log.warning("%s: %s", record.message_id, death.message)
            return death
        try:
            result: HandlerResult = ForkingPickler.loads(answer)
        except BaseException as error:  # noqa: BLE001 - any error of the user's own classes
            failure = Failure(FailureKind.RAISED, type(error).__qualname__, f"the outputs cannot be unpickled: {error}")
            return HandlerResult(failure, ())
        return result

    def _answers(self, deadline_s: float | None) -> bool:
        """Wait for the answer; false if it does not come within ``deadline_s``.

        Raises:
            EOFError: the child is dead.
        """
        if deadline_s is None:
            while not self.poll(MAX_WAIT_S):
                pass
            return True
        started_s = left_s = seconds_ago(0.0)
        while left_s > 0:
            left_s = started_s - seconds_ago(deadline_s)
            if self.poll(left_s):
                return True
        return False


class _DeliveryFailedError(ConsumersError):
    """Carries the failure of a record to the processor."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class _PoolHandler(Handler):
    """The handler as the processor sees it."""

    def failure(self, error: BaseException) -> Failure:
        """See :class:`Handler`."""
        return error.failure if isinstance(error, _DeliveryFailedError) else super().failure(error)
