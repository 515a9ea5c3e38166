"""Handlers in child processes, so that a record can neither kill its worker nor hold a slot for ever.

Each slot is a thread that sends one record at a time to a child and waits for the result. If the child dies, exactly
the record that it had has failed. At the deadline the parent kills the child.
"""

from __future__ import annotations

import logging
import sys
from contextlib import ExitStack
from multiprocessing.reduction import ForkingPickler
from queue import SimpleQueue

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import ConsumersError, HandlerLoadError
from kafka_redelivery.consumers.handlers.child_main import ChildSetup, HandlerResult
from kafka_redelivery.consumers.handlers.child_process import ChildProcess
from kafka_redelivery.consumers.handlers.handler import Handler, load_handler
from kafka_redelivery.consumers.handlers.processor import deadline_passed
from kafka_redelivery.consumers.handlers.record import Context, Record
from kafka_redelivery.consumers.telemetry.logs import child_log_format
from kafka_redelivery.topology.config.settings import HandlerSection, Isolation
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.policy.failure_details import FailureDetails

_log = logging.getLogger(__name__)
_MODULE = "kafka_redelivery.consumers.handlers.child_main"
_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s (child %(process)d): %(message)s"
_CLOSING_S = 2.0
"""Time that idle children have to end when the pool is closed."""


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
        self._idle: SimpleQueue[_PooledChild | None] = SimpleQueue()
        """``None`` stands for a dead child. The slot that takes it starts another one."""

        self._alive = {_PooledChild(_MODULE, self._setup, search_path=sys.path) for _ in range(section.slots)}
        try:
            for child in self._alive:
                child.wait_until_ready(section.callable)
        except HandlerLoadError:
            self.close()
            raise
        for child in self._alive:
            self._idle.put(child)

    def handler(self) -> Handler:
        """Return a handler that the thread of a slot calls like any synchronous function."""
        return _PoolHandler(self._call, takes_context=True, asynchronous=False, details=self._setup.details)

    def close(self) -> None:
        """Let idle children end by themselves within two seconds, and kill the others."""
        idle = set()
        while not self._idle.empty():
            child = self._idle.get()
            if child is not None:
                idle.add(child)
                child.leave()
        for busy in self._alive - idle:
            busy.kill()  # the slot that waits for it finds it dead
        end_s = monotonic_s() + _CLOSING_S
        for child in idle:
            child.join(max(0.0, end_s - monotonic_s()))

    def _call(self, record: Record, context: Context) -> None:
        try:
            failure = self._deliver(record, context)
        except Exception as error:  # noqa: BLE001 - no code of the user runs here: our error, or no child can be started
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
        child = self._idle.get()
        try:
            if child is not None and not child.send(delivery):
                _log.warning("an idle process of the handler died; starting another one")
                self._discard(child)
                child = None
            if child is None:
                child = self._start()
                child.send(delivery)  # if it fails, the child died with this record: see result()
            result = child.result(record, self._deadline_s)
            if isinstance(result, Failure):
                self._discard(child)
                child = None
                return result
        finally:
            self._idle.put(child)
        context.outputs += result.outputs
        return result.failure

    def _start(self) -> _PooledChild:
        child = _PooledChild(_MODULE, self._setup, search_path=sys.path)
        child.wait_until_ready(self._setup.target)
        self._alive.add(child)
        return child

    def _discard(self, child: _PooledChild) -> None:
        self._alive.discard(child)
        child.kill()


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
        except Exception as error:  # noqa: BLE001 - any error of the user's own classes
            failure = Failure(FailureKind.RAISED, type(error).__qualname__, f"the outputs cannot be unpickled: {error}")
            return HandlerResult(failure, ())
        return result

    def _answers(self, deadline_s: float | None) -> bool:
        """Wait for the answer; false if it does not come within ``deadline_s``.

        Raises:
            EOFError: the child is dead.
        """
        end_s = float("inf") if deadline_s is None else monotonic_s() + deadline_s
        while not self.poll(end_s - monotonic_s()):
            if monotonic_s() >= end_s:
                return False
        return True


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
