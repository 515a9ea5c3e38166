"""The user's handler: loaded and inspected once at start."""

from __future__ import annotations

import importlib
import inspect
import logging
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from traceback import walk_tb
from typing import Any, Final, cast

from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.consumers.handlers.event_loop import HandlerLoop
from kafka_redelivery.consumers.handlers.record import Context, Record, Redeliver, Reject
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.policy.failure_details import FailureDetails


def classes_and_frames(error: BaseException) -> str:
    """Return class and frames of an exception, and of each that led to it, outermost first.

    The texts of the exceptions and their notes may have personal data. The lines of source code are left out, too.
    """
    lines: list[str] = []
    found: BaseException | None = error
    seen: set[int] = set()
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        lines.append(f"{'caused by ' if lines else ''}{type(found).__qualname__}")
        lines += [
            f'  File "{frame.f_code.co_filename}", line {number}, in {frame.f_code.co_qualname}'
            for frame, number in walk_tb(found.__traceback__)
        ]
        hidden = found.__suppress_context__ or found.__cause__ is not None
        found = found.__cause__ if hidden else found.__context__
    return "\n".join(lines)


_log = logging.getLogger(__name__)

_TWO = 2
CRITICAL: Final = (MemoryError, KeyboardInterrupt)
"""Exceptions that halt the worker, because their record is not the cause."""

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

    loop: HandlerLoop = field(default_factory=HandlerLoop, compare=False, repr=False)
    """Where asynchronous calls run."""

    def failure(self, error: BaseException) -> Failure:
        """Return the failure that an exception of the handler, or of a codec, stands for.

        ``MemoryError`` and ``KeyboardInterrupt`` are critical: the worker halts. All others fail their record, also
        ``SystemExit``, which libraries raise for bad input, and other exceptions that are no ``Exception``.
        """
        name, message = type(error).__qualname__, _message(error)
        if isinstance(error, Redeliver):
            after = None if error.after is None else round(error.after.total_seconds() * 1000)
            return Failure(FailureKind.REDELIVER, name, message, after)
        if isinstance(error, Reject) or (self.not_retryable and isinstance(error, self.not_retryable)):
            return Failure(FailureKind.REJECTED, name, message)
        self._log_traceback(error)
        if isinstance(error, CRITICAL):
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

    Args:
        target: module and attribute, separated by a colon. What it names is opened, see :func:`opened`.
        not_retryable: exception classes in the same notation; built-in ones without a module.
        stack: closed when the handler is not needed any more.
        details: whether texts of exceptions are logged.

    Raises:
        HandlerLoadError: the target does not exist, is not callable, takes neither ``(record)`` nor
            ``(record, context)``, or cannot be opened.
    """
    found, loop = find_handler(target), HandlerLoop()
    stack.callback(loop.close)
    called = opened(found, stack, loop, target=target)
    return replace(as_handler(called, load_exceptions(not_retryable), target=target), details=details, loop=loop)


def opened(found: Any, stack: ExitStack, loop: HandlerLoop, *, target: str = "given") -> Any:  # noqa: ANN401 - the user's
    """Open a handler, so that it can have resources, and return what is called for each record.

    A class is instantiated without arguments. If its object is a context manager, it is entered now, and what that
    returns is called. ``__aenter__`` runs on the loop. If there is ``__enter__``, too, the kind of the call decides.

    An object that a module has made is entered only on the loop, where its module cannot do it, and is itself called.

    Args:
        found: a function, a class or another object.
        stack: exits the object when it is closed.
        loop: exits an asynchronous context manager when it is closed.
        target: the handler's name, for the error.

    Raises:
        HandlerLoadError: the object cannot be created or entered.
    """
    try:
        made = found() if inspect.isclass(found) else found
        on_loop = _is_asynchronous(made) or not isinstance(made, AbstractContextManager)
        if on_loop and isinstance(made, AbstractAsyncContextManager):
            entered = loop.enter(made)
            return found if made is found else entered
        if isinstance(made, AbstractContextManager) and made is not found:
            return stack.enter_context(made)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        problem = f"cannot be started: {type(error).__name__}: {_message(error)}"
        raise HandlerLoadError(target, problem, "correct the class, or provide what it needs") from error
    return made


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
    if function is None:
        problem = "is None: what a class returns from __enter__ or __aenter__ is called"
        raise HandlerLoadError(target, problem, "end that method with `return self`")
    if not callable(function):
        raise HandlerLoadError(target, "is not callable", "name a function, or a class whose objects can be called")
    if any(inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body) for body in _bodies(function)):
        problem = "is a generator, which does nothing when it is called"
        raise HandlerLoadError(target, problem, "emit with context.send instead of yield")
    return Handler(
        cast("Callable[[Record, Context], Awaitable[None] | None]", function),
        _takes_context(function, target),
        _is_asynchronous(function),
        not_retryable,
    )


def _is_asynchronous(function: object) -> bool:
    return any(map(inspect.iscoroutinefunction, _bodies(function)))


def _bodies(function: object) -> tuple[object, object]:
    return function, function if inspect.isroutine(function) else getattr(type(function), "__call__", None)  # noqa: B004 - of the class


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


def find_handler(target: str) -> Any:  # noqa: ANN401 - whatever the user's module holds
    """Import what a target names: module and attribute, separated by a colon.

    Raises:
        HandlerLoadError: there is no such module or attribute, or the module cannot be imported.
    """
    module_name, _, attribute = target.partition(":")
    top = module_name.partition(".")[0]
    try:
        module = importlib.import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
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
    found = find_handler(target)
    if not (inspect.isclass(found) and issubclass(found, BaseException)):
        raise HandlerLoadError(
            target, "is listed in notRetryable but is not an exception class", "write package.module:Class"
        )
    return found


def _message(error: BaseException) -> str:
    """Return the text of an exception, even if its ``__str__`` raises."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - a broken exception class must not kill the worker
        return "<no message: its __str__ failed>"
