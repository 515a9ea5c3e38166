"""Handlers in child processes, so that a record can neither kill its worker nor hold a slot for ever.

Each slot is a thread that sends one record, or one batch, at a time to a child and waits for the result. If the child
dies, exactly the record that it had has failed; a batch is handled again one by one. At the deadline the parent kills
the child.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from threading import Condition
from typing import Final

from kafka_redelivery.consumers.clock import monotonic_s
from kafka_redelivery.consumers.errors import ConsumersError, HandlerLoadError, HandlerUnavailable
from kafka_redelivery.consumers.flow.work_item import in_slot
from kafka_redelivery.consumers.handlers.batch import Batch
from kafka_redelivery.consumers.handlers.calls import CallArguments, CallResult, Formats, Given, load_calls
from kafka_redelivery.consumers.handlers.child import (
    Child,
    ChildDiedError,
    LoadLimit,
    Setup,
    UnreadableMessageError,
)
from kafka_redelivery.consumers.handlers.dependencies import Declared, Dependencies
from kafka_redelivery.consumers.handlers.event_loop import HandlerLoop
from kafka_redelivery.consumers.handlers.handler import NOTHING, Handler, check_importable, load_handler
from kafka_redelivery.consumers.handlers.record import Context, Record
from kafka_redelivery.consumers.handlers.tracing import carrier
from kafka_redelivery.consumers.handlers.values import DeclaredValues
from kafka_redelivery.consumers.telemetry.logs import child_log_format
from kafka_redelivery.consumers.telemetry.tracing import tracing
from kafka_redelivery.topology.backoff import Backoff
from kafka_redelivery.topology.config.settings import HandlerSection, Isolation, Settings
from kafka_redelivery.topology.policy.decision import Failure, FailureDetails, FailureKind

_log = logging.getLogger(__name__)
_LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s (child %(process)d): %(message)s"
_CLOSING_S: Final = 2.0
"""Time that idle children have to end when the pool is closed."""

_BACKOFF: Final = Backoff(1.0, 10.0)
"""Pauses after children that could not be started; each is twice as long as the one before."""

_LOOK_S: Final = 0.2
"""How often a slot that waits for a child looks whether its record is still to be handled."""

_ANSWER_S: Final = 60.0
_ANY_FORMATS: Final = Formats()


class ChildProcessPool:
    """One child process per slot. Thread-safe: one slot at a time uses a child."""

    def __init__(
        self,
        section: HandlerSection,
        details: FailureDetails = FailureDetails.FULL,
        formats: Formats = _ANY_FORMATS,
    ) -> None:
        """Start the children and wait until each has loaded the handler.

        Raises:
            HandlerLoadError: a child cannot load the handler.
        """
        deadline = section.deadline
        self._deadlines = [None if deadline is None else deadline.total_seconds()]
        self._target, self._details = section.callable, details
        self._batch = section.batch is not None
        needs = Declared.by(section)
        # The classes of exceptions are known to the children.
        self._dependencies = Dependencies(dict(needs.names), of_deadline=needs.of_deadline)
        self._carrier = carrier()
        arguments = CallArguments(
            section.callable,
            section.not_retryable,
            section.value,
            details,
            formats,
            needs,
            batch=self._batch,
            traced=tracing(),
        )
        level, log_format = logging.getLogger().level, child_log_format(_LOG_FORMAT)
        self._setup = Setup(load_calls, arguments, level, log_format)
        self._changed = Condition()
        """Guards all that follows. Notified when a child is idle, or when one cannot be used or started."""

        self._alive = {Child(self._setup, search_path=sys.path) for _ in range(section.slots)}
        self._idle: deque[Child] = deque()
        self._number, self._missing, self._starting = section.slots, 0, 0
        """Number of children, of those that are dead, and of those that load the handler after another has died."""

        self._backoff = _BACKOFF
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
        return _PoolHandler(
            self._call_with_batch if self._batch else self._call,
            takes_context=not self._batch,
            asynchronous=False,
            batch=self._batch,
            dependencies=self._dependencies,
            details=self._details,
        )

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
        result = self._result_of(Given(record, context.deliveries, context.group, self._carrier()), record)
        context.outputs += result.outputs.get(0, ())

    def _call_with_batch(self, batch: Batch) -> None:
        contexts = [batch.context(record) for record in batch]
        deliveries, group = [context.deliveries for context in contexts], contexts[0].group
        result = self._result_of(Given(list(batch), deliveries, group, self._carrier()), batch[0])
        for index, outputs in result.outputs.items():
            contexts[index].outputs += outputs
        for index, failure in result.failures.items():
            batch.errors[index] = _DeliveryFailedError(failure)

    def _result_of(self, given: Given, first: Record) -> CallResult:
        """Give a record or a batch to a child, and return what has become of it."""
        try:
            result = self._deliver(given, first)
        except HandlerUnavailable:
            raise
        except RecursionError as error:
            # A codec can decode a value that is nested too deeply for pickle.
            problem = f"the value is nested too deeply for the process of the handler: {error}"
            result = CallResult(Failure(FailureKind.UNDECODABLE, type(error).__qualname__, problem), {})
        except Exception as error:  # noqa: BLE001 - no code of the user runs here, so it is our error
            result = CallResult(Failure(FailureKind.CRITICAL, type(error).__qualname__, str(error)), {})
        if result.failure is not None:
            raise _DeliveryFailedError(result.failure)
        return result

    def _deliver(self, given: Given, first: Record) -> CallResult:
        child, reusable = self._give(given, first), False
        try:
            while not child.has_answer(_ANSWER_S, self._deadlines):
                pass
            result: CallResult = child.answer()
            reusable = True
        except ChildDiedError as death:
            if not death.killed:
                _log.warning("%s: %s", first.message_id, death.failure.message)
            return CallResult(death.failure, {})
        except UnreadableMessageError as error:
            reusable = True
            kind, problem = error.args
            return CallResult(Failure(FailureKind.RAISED, kind, f"the outputs cannot be unpickled: {problem}"), {})
        finally:
            if reusable:
                self._put_back(child)
            else:
                self._discard(child)
        return result

    def _give(self, given: Given, first: Record) -> Child:
        """Give a record or a batch to a child, and return that child."""
        for _ in range(self._number + 1):
            child = self._take()
            try:
                _refuse_withdrawn()
                # From here on, as a child that is stopped or keeps Python's lock says nothing.
                child.positions[0].set(0, first.offset, 1, monotonic_s())
                child.give(given, self._deadlines)
            except ChildDiedError:
                _log.warning("an idle process of the handler died; starting another one")
                self._discard(child)
            except BaseException:
                self._put_back(child)
                raise
            else:
                return child
        raise HandlerUnavailable("the processes of the handler die while they are idle")

    def _take(self) -> Child:
        """Return an idle child, or a new one if one is missing.

        Raises:
            HandlerUnavailable: there is no child, and none can be started at present; or the pool is closed, or the
                record is not to be handled any more.
        """
        child = self._idle_child()
        while child is None:
            child = self._start() or self._idle_child()
        return child

    def _idle_child(self) -> Child | None:
        """Return an idle child, if need be as soon as there is one; ``None``: the caller starts a missing one."""
        with self._changed:
            while not self._closed:
                if self._idle:
                    return self._idle.popleft()
                _refuse_withdrawn()
                wait_s = self._backoff.due_s - monotonic_s() if self._missing else None
                if wait_s is not None and wait_s <= 0:
                    self._missing -= 1
                    self._starting += 1
                    return None
                if self._problem and self._missing + self._starting == self._number:
                    raise HandlerUnavailable(self._problem)
                self._changed.wait(_LOOK_S if wait_s is None else min(wait_s, _LOOK_S))
        raise HandlerUnavailable("the processes of the handler are being ended")

    def _start(self) -> Child | None:
        """Start a child and wait until it has loaded the handler; ``None`` if that is not possible at present."""
        child = None
        try:
            child = Child(self._setup, search_path=sys.path)
            with self._changed:
                self._alive.add(child)
                closed = self._closed
            if closed:
                child.kill()
            child.wait_until_ready(self._target, self._load_limit)
        except (HandlerLoadError, OSError) as error:
            with self._changed:
                self._alive.discard(child)
                self._starting -= 1
                self._missing += 1
                self._backoff, self._problem = self._backoff.failed(monotonic_s()), str(error)
                self._changed.notify_all()
                if not self._closed:
                    _log.warning("%s; a process of the handler is started again in %g s", error, self._backoff.pause_s)
            return None
        with self._changed:
            self._starting -= 1
            self._backoff, self._problem = _BACKOFF, ""
        return child

    def _put_back(self, child: Child) -> None:
        with self._changed:
            self._idle.append(child)
            self._changed.notify()

    def _discard(self, child: Child) -> None:
        child.kill()
        with self._changed:
            self._alive.discard(child)
            self._missing += 1
            self._changed.notify_all()


def _refuse_withdrawn() -> None:
    """Keep a record from a child if its partition was given away, or is held, since its slot waits for the child.

    Raises:
        HandlerUnavailable: it is not to be handled now.
    """
    item = in_slot.get()
    if item is not None and item.withdrawn:
        raise HandlerUnavailable("the partition was given away, or is held")


def formats_of(settings: Settings, section: HandlerSection) -> Formats:
    """Return the formats of the sources that a handler has, and those of all outputs."""
    own = [each for each in settings.sources if settings.handler_of(each.topic) == section]
    undecoded = [each.topic for each in own if each.value.format in {"raw", "string"}]
    outputs = {each.topic: (each.key.format == "json", each.value.format == "json") for each in settings.outputs}
    return Formats(undecoded[0] if undecoded else "", outputs)


def load_as_configured(
    section: HandlerSection,
    stack: ExitStack,
    details: FailureDetails,
    loop: HandlerLoop | None = None,
    given: Mapping[str, object] = NOTHING,
    *,
    formats: Formats = _ANY_FORMATS,
) -> Handler:
    """Load the handler in this process, or in child processes if ``isolation`` asks for them.

    Args:
        section: the handler.
        stack: closed when the handler is not needed any more.
        details: whether texts of exceptions are logged.
        loop: as in :func:`load_handler`.
        given: as in :func:`load_handler`; a child process imports them by their names nevertheless.
        formats: the formats of its sources and of the outputs.

    Raises:
        HandlerLoadError: it cannot be loaded.
    """
    needs = Declared.by(section)
    if section.isolation is Isolation.NONE:
        values = DeclaredValues(section.value, formats.undecoded, section.takes)
        return load_handler(section.callable, section.not_retryable, stack, details, loop, given, values, needs)
    names = {section.callable, section.value, *section.not_retryable, *(name for name, _ in needs.classes)}
    for name in given.keys() & names:
        check_importable(name, given[name])
    children = ChildProcessPool(section, details, formats)
    stack.callback(children.close)
    return children.handler()


class _DeliveryFailedError(ConsumersError):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class _PoolHandler(Handler):
    def failure(self, error: BaseException) -> Failure:
        """See :class:`Handler`."""
        return error.failure if isinstance(error, _DeliveryFailedError) else super().failure(error)
