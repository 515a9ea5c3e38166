"""The user's handler: loaded and inspected once at start."""

from __future__ import annotations

import importlib
import inspect
import logging
import sys
import traceback
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, cast

from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.consumers.handlers.record import Context, Record, Redeliver, Reject
from kafka_redelivery.consumers.handlers.traceback_text import classes_and_frames
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.policy.failure_details import FailureDetails

_log = logging.getLogger(__name__)

_TWO = 2
_NOT_CRITICAL = (Exception, CancelledError)
_RAISED = "the handler raised (logged once per exception class):"


@dataclass(frozen=True, slots=True)
class Handler:
    """A handler, and how it is called."""

    call: Callable[..., Any]
    """Called with ``(record)`` or ``(record, context)``."""

    takes_context: bool
    asynchronous: bool
    """Whether a call returns an awaitable."""

    not_retryable: tuple[type[BaseException], ...] = ()
    """Exception classes that mean the same as :class:`Reject`."""

    details: FailureDetails = FailureDetails.FULL
    """Whether texts of exceptions are logged."""

    logged: set[type[BaseException]] = field(default_factory=set, compare=False, repr=False)
    """Exception classes whose traceback has been logged as a warning."""

    def failure(self, error: BaseException) -> Failure:
        """Return the failure that an exception of the handler stands for.

        ``MemoryError`` and exceptions such as ``SystemExit`` are critical: the worker halts.
        """
        name, message = type(error).__qualname__, _message(error)
        if isinstance(error, Redeliver):
            after = None if error.after is None else round(error.after.total_seconds() * 1000)
            return Failure(FailureKind.REDELIVER, name, message, after)
        if isinstance(error, Reject) or (self.not_retryable and isinstance(error, self.not_retryable)):
            return Failure(FailureKind.REJECTED, name, message)
        self._log_traceback(error)
        if isinstance(error, MemoryError) or not isinstance(error, _NOT_CRITICAL):
            return Failure(FailureKind.CRITICAL, name, message)
        return Failure(FailureKind.RAISED, name, message)

    def _log_traceback(self, error: BaseException) -> None:
        """Log the traceback, as a warning only once per class, so that a storm of failures stays readable."""
        level = logging.DEBUG if type(error) in self.logged else logging.WARNING
        self.logged.add(type(error))
        if not _log.isEnabledFor(level):
            return
        if self.details.class_only:
            _log.log(level, "%s %s", _RAISED, classes_and_frames(error))
        else:
            _log.log(level, _RAISED, exc_info=error)


def load_handler(
    target: str, not_retryable: Sequence[str], stack: ExitStack, details: FailureDetails = FailureDetails.FULL
) -> Handler:
    """Load the handler ``package.module:function``.

    A class is instantiated without arguments. If the instance is a context manager, it is entered now and exited when
    ``stack`` is closed, so that a handler can open and close its resources.

    Args:
        target: module and attribute, separated by a colon.
        not_retryable: exception classes in the same notation; built-in ones without a module.
        stack: closed when the handler is not needed any more.
        details: whether texts of exceptions are logged.

    Raises:
        HandlerLoadError: the target does not exist, is not callable, or takes neither ``(record)`` nor
            ``(record, context)``.
    """
    found = _find(target)
    if inspect.isclass(found):
        try:
            found = found()
            if isinstance(found, AbstractContextManager):
                found = stack.enter_context(found)
        except Exception as error:
            problem = f"cannot be started: {type(error).__name__}: {error}"
            raise HandlerLoadError(target, problem, "correct the class, or provide what it needs") from error
    return replace(as_handler(found, load_exceptions(not_retryable), target=target), details=details)


def load_exceptions(names: Iterable[str]) -> tuple[type[BaseException], ...]:
    """Load exception classes such as ``package.module:Class``; built-in ones have no module.

    Raises:
        HandlerLoadError: a class does not exist, or is no exception.
    """
    return tuple(map(_exception, names))


def as_handler(
    function: object, not_retryable: tuple[type[BaseException], ...] = (), *, target: str = "given"
) -> Handler:
    """Inspect a callable and return it as a handler.

    Raises:
        HandlerLoadError: the callable takes neither ``(record)`` nor ``(record, context)``, or is a generator.
    """
    if not callable(function):
        raise HandlerLoadError(target, "is not callable", "name a function, or a class whose objects can be called")
    bodies = (function, function if inspect.isroutine(function) else type(function).__call__)
    if any(inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body) for body in bodies):
        problem = "is a generator, which does nothing when it is called"
        raise HandlerLoadError(target, problem, "emit with context.send instead of yield")
    asynchronous = any(map(inspect.iscoroutinefunction, bodies))
    return Handler(
        cast("Callable[[Record, Context], Awaitable[None] | None]", function),
        _takes_context(function, target),
        asynchronous,
        not_retryable,
    )


def not_run(result: object) -> Failure | None:
    """Return a critical failure if a handler returned an awaitable or a generator, because then nothing has run yet.

    A plain decorator or lambda hides that the function behind it is asynchronous, and a coroutine function may forget
    to await another one. Acknowledging such a record would lose it.
    """
    if inspect.iscoroutine(result):
        result.close()
    elif not (inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result)):
        return None
    return Failure(
        FailureKind.CRITICAL,
        "HandlerNotRun",
        f"the handler returned a {type(result).__name__} that has not run: await it in an async def, and make its "
        "decorators async def, too",
    )


def _takes_context(function: Callable[..., object], target: str) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    # Try one argument first: a second parameter that has a default is the user's own, unless its name is "context".
    parameters = signature.parameters
    variadic = any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters.values())
    wanted = (_TWO, 1) if variadic or "context" in parameters else (1, _TWO)
    for arguments in wanted:
        try:
            signature.bind(*([None] * arguments))
        except TypeError:
            continue
        return arguments == _TWO
    problem = f"takes {signature} instead of (record) or (record, context)"
    raise HandlerLoadError(target, problem, "give it these parameters, and all others a default")


def _find(target: str) -> Any:  # noqa: ANN401 - whatever the user's module holds
    module_name, _, attribute = target.partition(":")
    top = module_name.partition(".")[0]
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        own = isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == top
        # The last entry is the folder of the configuration, which holds the user's modules.
        where = f"searched: {', '.join(sys.path[:2])}, ..., {sys.path[-1]}" if own else f"at {_last_line(error)}"
        fix = f"put {top} beside the configuration file, or install it" if own else "correct the error there"
        problem = f"cannot be imported: {type(error).__name__}: {error} ({where})"
        raise HandlerLoadError(target, problem, fix) from error
    found: Any = module
    for part in attribute.split("."):
        names = dir(found)
        found = getattr(found, part, None)
        if found is None:
            close = get_close_matches(part, names, n=1)
            fix = f"did you mean {close[0]}?" if close else "correct the name"
            raise HandlerLoadError(target, f"module {module_name} has no {attribute}", fix)
    return found


def _last_line(error: BaseException) -> str:
    """Return file and line of an import error, outside the import machinery."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}:{error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown location"


def _exception(target: str) -> type[BaseException]:
    if ":" not in target:
        target = f"builtins:{target}"
    found = _find(target)
    if not (inspect.isclass(found) and issubclass(found, BaseException)):
        raise HandlerLoadError(
            target, "is listed in notRetryable but is not an exception class", "write package.module:Class"
        )
    return found


def _message(error: BaseException) -> str:
    """Return the text of an exception, even if its ``__str__`` raises."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a broken exception class must not kill the worker
        return "<no message: its __str__ failed>"
