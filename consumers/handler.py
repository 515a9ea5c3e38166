"""The user's function: found, understood once at start, and called the same way ever after."""

from __future__ import annotations

import importlib
import inspect
import logging
import sys
import traceback
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, cast

from consumers.errors import HandlerLoadError
from consumers.record import Context, Record, Redeliver, Reject
from topology.decision import Failure, FailureKind
from topology.rules import OUR_PACKAGES

_log = logging.getLogger(__name__)

_TWO = 2
_SURVIVED = (Exception, CancelledError)
_RAISED = "the handler raised (shown once for each class):"


@dataclass(frozen=True, slots=True)
class Handler:
    """A user's function, ready to be called with one or two arguments.

    ``takes_context`` tells whether it wants the :class:`Context`; ``asynchronous`` whether calling it
    gives an awaitable.
    """

    call: Callable[..., Any]
    takes_context: bool
    asynchronous: bool
    not_retryable: tuple[type[BaseException], ...] = ()
    shown: set[type[BaseException]] = field(default_factory=set, compare=False, repr=False)
    """Exception classes whose traceback is in the log already."""

    def failure(self, error: BaseException) -> Failure:
        """What an exception out of the handler means."""
        name, message = type(error).__qualname__, _message(error)
        if isinstance(error, Redeliver):
            after = None if error.after is None else round(error.after.total_seconds() * 1000)
            return Failure(FailureKind.REDELIVER, name, message, after)
        if isinstance(error, Reject) or (self.not_retryable and isinstance(error, self.not_retryable)):
            return Failure(FailureKind.REJECTED, name, message)
        self._show(error)
        if isinstance(error, MemoryError) or not isinstance(error, _SURVIVED):
            return Failure(FailureKind.CRITICAL, name, message)
        return Failure(FailureKind.RAISED, name, message)

    def _show(self, error: BaseException) -> None:
        """Log where it comes from: for each class once, so that a storm of failures stays readable."""
        if type(error) in self.shown:
            _log.debug(_RAISED, exc_info=error)
        else:
            self.shown.add(type(error))
            _log.warning(_RAISED, exc_info=error)


def load_handler(target: str, not_retryable: Sequence[str], stack: ExitStack) -> Handler:
    """Load ``package.module:function``.

    A class is instantiated without arguments; if what comes out is a context manager it is entered now
    and left when ``stack`` is closed, so that a handler can open and close what it needs.

    Raises:
        HandlerLoadError: it is not there, not callable, or takes neither (record) nor (record, context).
    """
    found = _find(target)
    if inspect.isclass(found):
        try:
            found = found()
            if isinstance(found, AbstractContextManager):
                found = stack.enter_context(found)
        except Exception as error:
            problem = f"cannot be started: {type(error).__name__}: {error}"
            raise HandlerLoadError(target, problem, "see to what it needs, or correct the class") from error
    exceptions = tuple(_exception(name) for name in not_retryable)
    return as_handler(found, exceptions, target=target)


def as_handler(
    function: object, not_retryable: tuple[type[BaseException], ...] = (), *, target: str = "given"
) -> Handler:
    """Understand a callable.

    Raises:
        HandlerLoadError: it takes neither (record) nor (record, context), or is a generator.
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
    """The failure of a handler whose result still has to be run, so that nothing has happened yet.

    An asynchronous function behind a plain one (a decorator, a lambda) is not known as such, and one
    may forget to await another. To acknowledge that would lose every record.
    """
    if inspect.iscoroutine(result):
        result.close()
    elif not (inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result)):
        return None
    return Failure(
        FailureKind.CRITICAL,
        "HandlerNotRun",
        f"the handler gave back a {type(result).__name__} instead of running it: await it in an async def, "
        "and let decorators be async def, too",
    )


def _takes_context(function: Callable[..., object], target: str) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    # One argument first: a second parameter with a default is the user's own, unless it is called "context".
    parameters = signature.parameters
    open_ended = any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters.values())
    wanted = (_TWO, 1) if open_ended or "context" in parameters else (1, _TWO)
    for arguments in wanted:
        try:
            signature.bind(*([None] * arguments))
        except TypeError:
            continue
        return arguments == _TWO
    problem = f"must take (record) or (record, context), it takes {signature}"
    raise HandlerLoadError(target, problem, "give it these parameters, and defaults to all others")


def _find(target: str) -> Any:  # noqa: ANN401 - whatever the user's module holds
    module_name, _, attribute = target.partition(":")
    top = module_name.partition(".")[0]
    hint = f"'{top}' is a package of kafka-redelivery itself, name yours differently" if top in OUR_PACKAGES else ""
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        own = isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == top
        # The last place is the configuration's folder: where the user's modules are.
        where = f"searched: {', '.join(sys.path[:2])}, ..., {sys.path[-1]}" if own else f"at {_last_line(error)}"
        mend = f"put {top} beside the configuration file, or install it" if own else "correct what fails there"
        problem = f"cannot be imported: {type(error).__name__}: {error} ({where})"
        raise HandlerLoadError(target, problem, hint or mend) from error
    found: Any = module
    for part in attribute.split("."):
        names = dir(found)
        found = getattr(found, part, None)
        if found is None:
            close = get_close_matches(part, names, n=1)
            mend = f"did you mean {close[0]}?" if close else "correct the name"
            raise HandlerLoadError(target, f"module {module_name} has no {attribute}", hint or mend)
    return found


def _last_line(error: BaseException) -> str:
    """The line that an import failed at, outside the import machinery."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}:{error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown place"


def _exception(target: str) -> type[BaseException]:
    if ":" not in target:
        target = f"builtins:{target}"
    found = _find(target)
    if not (inspect.isclass(found) and issubclass(found, BaseException)):
        raise HandlerLoadError(target, "notRetryable must name exception classes", "write package.module:Class")
    return found


def _message(error: BaseException) -> str:
    """The exception's text, also when its own ``__str__`` fails."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a broken exception must not turn one failed record into a dead worker
        return "<no message: its __str__ failed>"
