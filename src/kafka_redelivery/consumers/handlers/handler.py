"""The user's handler: loaded and inspected once at start."""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from types import ModuleType
from typing import Any, Final, cast

from kafka_redelivery.consumers.errors import HandlerLoadError, InvalidValueError
from kafka_redelivery.consumers.handlers.dependencies import (
    NO_DEPENDENCIES,
    NOTHING_DECLARED,
    Declared,
    Dependencies,
)
from kafka_redelivery.consumers.handlers.event_loop import HandlerLoop
from kafka_redelivery.consumers.handlers.frames import causes_of, text_of, traced
from kafka_redelivery.consumers.handlers.record import Record, Redeliver, Reject
from kafka_redelivery.consumers.handlers.values import (
    DeclaredValues,
    Takes,
    ValueParameter,
    ValueType,
    value_parameter,
    with_values,
)
from kafka_redelivery.consumers.telemetry.failure_log import traceback_text
from kafka_redelivery.topology.policy.decision import Failure, FailureDetails, FailureKind

_log = logging.getLogger(__name__)

NOTHING: Final[Mapping[str, object]] = {}
_TWO = 2
_ANY_VALUES: Final = DeclaredValues()
CRITICAL: Final = (MemoryError, KeyboardInterrupt)
"""Exceptions that halt the worker, because their record is not the cause."""

_RAISED = "the handler raised (logged once per exception class and line):"


@dataclass(frozen=True, slots=True)
class Handler:
    """A handler, and how it is called."""

    call: Callable[..., Any]
    """Called with ``(record)`` or ``(record, context)``. It converts the record's value, if the handler has a type.

    A batch handler is called with ``(batch)``, whose records have been converted.
    """

    takes_context: bool
    asynchronous: bool
    """Whether a call returns an awaitable."""

    value: ValueType | None = None
    """The type to which a call converts the record's value."""

    not_retryable: tuple[type[BaseException], ...] = ()
    """Exception classes that mean the same as :class:`Reject`."""

    batch: bool = False
    """Whether it is called with a :class:`Batch`."""

    dependencies: Dependencies = NO_DEPENDENCIES
    """What may be away."""

    details: FailureDetails = FailureDetails.FULL
    """Whether texts of exceptions are logged."""

    package: str = ""
    """The first part of the name of the module that has the handler."""

    logged: set[tuple[type[BaseException], tuple[str, ...]]] = field(default_factory=set, compare=False, repr=False)
    """Exception classes and lines whose traceback has been logged as a warning."""

    plain: set[type[BaseException]] = field(default_factory=set, compare=False, repr=False)
    """Exception classes that have been seen to mean nothing but a failed record."""

    loop: HandlerLoop = field(default_factory=HandlerLoop, compare=False, repr=False)
    """Where asynchronous calls run."""

    def failure(self, error: BaseException) -> Failure:
        """Return the failure that an exception of the handler, or of a codec, stands for.

        ``MemoryError`` and ``KeyboardInterrupt`` are critical: the worker halts. All others fail their record, also
        ``SystemExit``, which libraries raise for bad input, and other exceptions that are no ``Exception``.
        """
        name, message = type(error).__qualname__, text_of(error)
        kind, after_ms = FailureKind.RAISED, None
        if type(error) not in self.plain:
            if isinstance(error, InvalidValueError):
                text = error.without_value if self.details.class_only else message
                return Failure(FailureKind.INVALID_VALUE, name, text)
            text = "" if self.details.class_only else message
            if (away := self.dependencies.of(error, name, text)) is not None:
                return away
            if isinstance(error, Redeliver):
                kind = FailureKind.REDELIVER
                after_ms = None if error.after is None else round(error.after.total_seconds() * 1000)
            elif isinstance(error, (Reject, *self.not_retryable)):
                kind = FailureKind.REJECTED
            elif isinstance(error, CRITICAL):
                kind = FailureKind.CRITICAL
            else:
                self.plain.add(type(error))
        users, frames, _ = traced(error, self.package)
        failure = Failure(kind, name, message, after_ms, "", False, users, frames, causes_of(error))  # noqa: FBT003
        if kind is FailureKind.RAISED or kind is FailureKind.CRITICAL:
            self._log_traceback(error, failure)
        return failure

    def not_encoded(self, error: BaseException) -> Failure:
        """Return the failure of a record of the last call in this thread or task, whose outputs cannot be encoded."""
        return self.failure(error)

    def settled(self) -> None:
        """Note that what the last call in this thread or task has emitted is encoded, or never will be."""

    def missed(self, deadline_s: float | None, message_id: str = "") -> Failure:
        """Return the failure of a call that did not return in time.

        Args:
            deadline_s: the deadline.
            message_id: its record; empty = that of the last call in this thread or task.
        """
        del message_id  # for spans
        return deadline_passed(deadline_s)

    def convert_value(self, record: Record) -> None:
        """Convert the value of a record of a batch; raises as :meth:`ValueType.of`."""
        if self.value is not None:
            record.value = self.value.of(record.value)

    def convert(self, record: Record) -> Failure | None:
        """Convert the value of a record of a batch, and return the failure of one that does not fit."""
        try:
            self.convert_value(record)
        except BaseException as error:  # noqa: BLE001 - code of the user that the type calls may raise anything
            return self.failure(error)
        return None

    def _log_traceback(self, error: BaseException, failure: Failure) -> None:
        """Log the traceback, as a warning only once per class and line, so that a storm of failures stays readable."""
        cause = type(error), failure.frames[-1:]
        if cause in self.logged:
            level = logging.DEBUG
        else:
            level = logging.WARNING
            self.logged.add(cause)
        if not _log.isEnabledFor(level):
            return
        if self.details.class_only:
            frames = traceback_text(self.details.of(failure).chain)
            _log.log(level, "%s %s%s", _RAISED, type(error).__qualname__, frames)
        else:
            _log.log(level, _RAISED, exc_info=error)


def load_handler(
    target: str,
    not_retryable: Sequence[str],
    stack: ExitStack,
    details: FailureDetails = FailureDetails.FULL,
    loop: HandlerLoop | None = None,
    given: Mapping[str, object] = NOTHING,
    values: DeclaredValues = _ANY_VALUES,
    needs: Declared = NOTHING_DECLARED,
) -> Handler:
    """Load the handler ``package.module:function``.

    Args:
        target: module and attribute, separated by a colon. What it names is opened, see :func:`opened`.
        not_retryable: exception classes in the same notation; built-in ones without a module.
        stack: closed when the handler is not needed any more.
        details: whether texts of exceptions are logged.
        loop: where asynchronous calls run; ``None`` = on a loop of its own, which ``stack`` closes.
        given: objects by their names; all others are imported.
        values: what the configuration says about the values.
        needs: what may be away.

    Raises:
        HandlerLoadError: the target does not exist, is not callable, has other parameters than a handler, takes a value
            of an unsupported type or one that a source does not have, or cannot be opened.
    """
    found = find_handler(target, given)
    declared = None if values.type is None else find_handler(values.type, given)
    if loop is None:
        loop = stack.enter_context(HandlerLoop())
    called = opened(found, stack, loop, target=target)
    exceptions = load_exceptions(not_retryable, "handler.notRetryable", given)
    handler = as_handler(called, exceptions, target=target, value=declared, takes=values.takes)
    if handler.value is not None:
        handler.value.check_source(values.undecoded, target)
    listed = [
        (listed, dependency)
        for name, dependency in needs.classes
        for listed in load_exceptions([name], f"dependencies.{dependency}.unavailable", given)
    ]
    dependencies = Dependencies(dict(needs.names), listed, needs.of_deadline)
    return replace(handler, details=details, loop=loop, dependencies=dependencies)


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
        on_loop = is_asynchronous(made) or not isinstance(made, AbstractContextManager)
        if on_loop and isinstance(made, AbstractAsyncContextManager):
            entered = loop.enter(made)
            return found if made is found else entered
        if isinstance(made, AbstractContextManager) and made is not found:
            return stack.enter_context(made)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        problem = f"cannot be started: {type(error).__name__}: {text_of(error)}"
        raise HandlerLoadError(target, problem, "correct the class, or provide what it needs") from error
    return made


def load_exceptions(
    names: Iterable[str], setting: str, given: Mapping[str, object] = NOTHING
) -> tuple[type[BaseException], ...]:
    """Load exception classes such as ``package.module:Class``; built-in ones have no module. Those ``given`` are there.

    Raises:
        HandlerLoadError: a class does not exist, or is no exception. It names the ``setting``.
    """
    return tuple(_exception(name, setting, given) for name in names)


def find_probe(target: str, setting: str, given: Mapping[str, object] = NOTHING) -> Callable[[], Any]:
    """Import the probe of a dependency.

    Raises:
        HandlerLoadError: it does not exist, or cannot be called. It names the ``setting``.
    """
    found: Any = _found(target, target, setting, given)
    if not callable(found):
        raise HandlerLoadError(target, "is not callable", "name a function without parameters", setting)
    return cast("Callable[[], Any]", found)


def as_handler(
    function: object,
    not_retryable: tuple[type[BaseException], ...] = (),
    *,
    target: str = "given",
    value: object = None,
    takes: Takes = "record",
) -> Handler:
    """Inspect a callable and return it as a handler.

    Args:
        function: the callable.
        not_retryable: exception classes that mean the same as :class:`Reject`.
        target: the handler's name, for errors.
        value: the type of the values; ``None`` = that of the annotation.
        takes: what the configuration says that it takes. The annotation :class:`Batch` says it, too.

    Raises:
        HandlerLoadError: the callable takes neither ``(record)``, ``(record, context)`` nor ``(batch)``, or a value of
            an unsupported type, or is a generator.
    """
    if function is None:
        problem = "is None: what a class returns from __enter__ or __aenter__ is called"
        raise HandlerLoadError(target, problem, "end that method with `return self`")
    if not callable(function):
        raise HandlerLoadError(target, "is not callable", "name a function, or a class whose objects can be called")
    if any(inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body) for body in _bodies(function)):
        problem = "is a generator, which does nothing when it is called"
        raise HandlerLoadError(target, problem, "emit with context.send instead of yield")
    arrow = takes == "arrow"
    parameter = ValueParameter(None, alone=False) if arrow else value_parameter(function, value, target=target)
    package = _package(function)
    if takes_batch(function, parameter, takes, target=target):
        asynchronous = is_asynchronous(function)
        return Handler(
            function,
            takes_context=False,
            asynchronous=asynchronous,
            value=parameter.type,
            not_retryable=not_retryable,
            batch=True,
            package=package,
        )
    takes_context = _takes_context(function, target)
    call = with_values(cast("Callable[..., Any]", function), parameter, takes_context=takes_context)
    return Handler(call, takes_context, is_asynchronous(function), parameter.type, not_retryable, package=package)


def _package(function: object) -> str:
    """Return the first part of the name of the module that has the handler, as far as decorators say it."""
    found = inspect.unwrap(function) if callable(function) else function
    while isinstance(found, functools.partial):
        found = found.func
    named = found if inspect.isroutine(found) else type(found)
    return str(getattr(named, "__module__", None) or "").partition(".")[0]


def is_asynchronous(function: object) -> bool:
    """Whether a call has to be awaited."""
    return any(map(inspect.iscoroutinefunction, _bodies(function)))


def _bodies(function: object) -> tuple[object, object]:
    return function, function if inspect.isroutine(function) else getattr(type(function), "__call__", None)  # noqa: B004 - of the class


def deadline_passed(deadline_s: float | None) -> Failure:
    """The failure of a handler that did not return in time."""
    return Failure(FailureKind.DEADLINE, "DeadlineExceeded", f"the handler took longer than {deadline_s} s")


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


def takes_batch(function: Callable[..., object], parameter: ValueParameter, takes: Takes, *, target: str) -> bool:
    """Whether a handler gets batches, because its annotation or the configuration says so.

    Raises:
        HandlerLoadError: the annotation says otherwise than the configuration, or other parameters have no default.
    """
    if not parameter.batch and takes != "batch":
        return False
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    if parameter.batch is False:
        problem = f"takes {signature}, but handler.batch in the configuration asks for batches"
        raise HandlerLoadError(target, problem, "annotate its parameter with Batch, or remove handler.batch")
    try:
        signature.bind(None)
    except TypeError as error:
        problem = f"takes {signature} instead of (batch)"
        fix = "give all other parameters a default; batch.context(record) returns the context of a record"
        raise HandlerLoadError(target, problem, fix) from error
    return True


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


def find_module(target: str) -> ModuleType:
    """Import the module that a target names before its colon.

    Raises:
        HandlerLoadError: the module cannot be imported.
    """
    module_name = target.partition(":")[0]
    top = module_name.partition(".")[0]
    try:
        return importlib.import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        own = isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == top
        # The last entry is the folder of the configuration, which holds the user's modules.
        where = f"searched: {', '.join(sys.path[:2])}, ..., {sys.path[-1]}" if own else f"at {_last_line(error)}"
        fix = f"put {top} beside the configuration file, or install it" if own else "correct the error there"
        problem = f"cannot be imported: {type(error).__name__}: {error} ({where})"
        raise HandlerLoadError(target, problem, fix) from error


def find_handler(target: str, given: Mapping[str, object] = NOTHING) -> Any:  # noqa: ANN401 - the user's
    """Import what a target names: module and attribute, separated by a colon. What is ``given`` is not imported.

    Raises:
        HandlerLoadError: there is no such module or attribute, or the module cannot be imported.
    """
    if target in given:
        return given[target]
    module_name, _, attribute = target.partition(":")
    if "<" in attribute:
        problem = "is defined within a function, where it cannot be imported"
        raise HandlerLoadError(target, problem, "define it at the top level of the module")
    found: Any = find_module(target)
    for part in attribute.split("."):
        names = dir(found)
        found = getattr(found, part, None)
        if found is None:
            close = get_close_matches(part, names, n=1)
            fix = f"did you mean {close[0]}?" if close else "correct the name"
            raise HandlerLoadError(target, f"module {module_name} has no {attribute}", fix)
    return found


def check_importable(target: str, given: object) -> None:
    """Refuse an object that another process would not find under its name.

    Raises:
        HandlerLoadError: it is another object there, or it is defined in the program itself, which a child would have
            to start once more.
    """
    if target.startswith("__main__:"):
        problem = "is defined in the program that was started, which a child process cannot import without starting it"
        raise HandlerLoadError(target, problem, "move it into a module of its own, or remove isolation: process")
    if "<" in target:
        problem = "is defined within a function, where a child process does not find it"
        raise HandlerLoadError(target, problem, "define it at the top level of a module, or remove isolation: process")
    if find_handler(target) is not given:
        problem = "is another object than the one that was given, so another process would call that one"
        raise HandlerLoadError(target, problem, "give the function or class with this name")


def _last_line(error: BaseException) -> str:
    """Return file and line of an import error, outside the import machinery."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}:{error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown location"


def _exception(name: str, setting: str, given: Mapping[str, object]) -> type[BaseException]:
    found = _found(name if ":" in name else f"builtins:{name}", name, setting, given)
    if not (inspect.isclass(found) and issubclass(found, BaseException)):
        raise HandlerLoadError(name, "is listed, but is not an exception class", "write package.module:Class", setting)
    return found


def _found(target: str, name: str, setting: str, given: Mapping[str, object]) -> Any:  # noqa: ANN401 - the user's
    """Find what a setting names; ``name``: as it is written there."""
    try:
        return find_handler(target, given)
    except HandlerLoadError as error:
        raise HandlerLoadError(name, error.problem, error.fix, setting) from error
