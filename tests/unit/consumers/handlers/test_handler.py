"""Handlers of every shape are called correctly, or refused with a message that says why."""

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.consumers.handlers.handler import Handler, as_handler, load_handler
from kafka_redelivery.consumers.handlers.record import Context, Record
from kafka_redelivery.topology.policy.decision import FailureKind
from tests.unit.consumers.failing_handlers import only_failure, raising, run
from tests.unit.consumers.records import record


class Calls:
    """Handlers of every shape; each keeps its arguments."""

    def __init__(self) -> None:
        self.seen: list[tuple[object, ...]] = []

    def one(self, record: Record) -> None:
        self.seen.append((record,))

    def two(self, record: Record, context: Context) -> None:
        self.seen.append((record, context))

    async def one_async(self, record: Record) -> None:
        self.seen.append((record,))

    async def two_async(self, record: Record, context: Context) -> None:
        self.seen.append((record, context))

    def any_number(self, *arguments: object) -> None:
        self.seen.append(arguments)

    def bound_first(self, first: str, record: Record, context: Context) -> None:
        assert first == "bound"
        self.seen.append((record, context))

    async def bound_first_async(self, first: str, record: Record) -> None:
        assert first == "bound"
        self.seen.append((record,))

    def named_only(self, record: Record, *, table: str) -> None:
        assert table == "bound"
        self.seen.append((record,))


class CallableInstance:
    """A callable instance."""

    def __init__(self, seen: list[tuple[object, ...]]) -> None:
        self.seen = seen

    def __call__(self, record: Record, context: Context) -> None:
        self.seen.append((record, context))


class AsyncCallable:
    """An asynchronous callable instance."""

    def __init__(self, seen: list[tuple[object, ...]]) -> None:
        self.seen = seen

    async def __call__(self, record: Record) -> None:
        self.seen.append((record,))


SHAPES: dict[str, tuple[Callable[[Calls], Callable[..., Any]], int, bool]] = {
    "bound method": (lambda calls: calls.one, 1, False),
    "bound method with context": (lambda calls: calls.two, 2, False),
    "a default of the user's own": (lambda calls: lambda record, _db="db": calls.one(record), 1, False),
    "a context that may be left out": (lambda calls: lambda record, context=None: calls.two(record, context), 2, False),
    "lambda": (lambda calls: lambda record: calls.seen.append((record,)), 1, False),
    "lambda with context": (lambda calls: lambda record, context: calls.seen.append((record, context)), 2, False),
    "partial": (lambda calls: functools.partial(calls.bound_first, "bound"), 2, False),
    "partial by name": (lambda calls: functools.partial(calls.named_only, table="bound"), 1, False),
    "partial, async": (lambda calls: functools.partial(calls.bound_first_async, "bound"), 1, True),
    "instance": (lambda calls: CallableInstance(calls.seen), 2, False),
    "instance, async": (lambda calls: AsyncCallable(calls.seen), 1, True),
    "async method": (lambda calls: calls.one_async, 1, True),
    "async method with context": (lambda calls: calls.two_async, 2, True),
    "any number of arguments": (lambda calls: calls.any_number, 2, False),
    "builtin": (lambda calls: calls.seen.append, 1, False),
    "decorated": (lambda calls: functools.wraps(calls.two)(lambda *given: calls.seen.append(given)), 2, False),
}


class TestShapes:
    @pytest.mark.parametrize(("make", "arguments", "asynchronous"), SHAPES.values(), ids=SHAPES)
    def test_it_is_called_with_its_parameters(
        self,
        make: Callable[[Calls], Callable[..., Any]],
        arguments: int,
        asynchronous: bool,  # noqa: FBT001 - a column of the table
    ) -> None:
        """With the record, or with record and context; awaited if it is asynchronous."""
        calls = Calls()
        understood = as_handler(make(calls))
        assert (understood.takes_context, understood.asynchronous) == (arguments == 2, asynchronous)
        given = run(make(calls), record(3))
        assert not given.failures
        [seen] = calls.seen
        [handled, *context] = seen if isinstance(seen, tuple) else (seen,)
        assert isinstance(handled, Record)
        assert handled.offset == 3
        assert [type(argument) for argument in context] == [Context] * (arguments - 1)

    @pytest.mark.parametrize(
        "function",
        [
            lambda: None,
            lambda record, context, more: None,  # noqa: ARG005 - the parameters are the point
            lambda *, record: None,  # noqa: ARG005
            lambda record, *, database: None,  # noqa: ARG005
        ],
        ids=["none", "three", "keyword-only", "one and keyword-only"],
    )
    def test_other_parameters_are_refused(self, function: Callable[..., None]) -> None:
        """The message shows the signature."""
        with pytest.raises(HandlerLoadError, match=r"takes \(.*\) instead of \(record\) or \(record, context\)"):
            as_handler(function)

    def test_an_object_that_is_not_callable_is_refused(self) -> None:
        with pytest.raises(HandlerLoadError, match="is not callable"):
            as_handler("handle")

    def test_a_generator_is_refused(self) -> None:
        """Calling it does nothing, so every record would be acknowledged unhandled."""

        def handle(record: Record) -> Iterator[Record]:
            yield record

        async def handle_async(record: Record) -> Any:  # noqa: ANN401 - an asynchronous generator
            yield record

        for generator in (handle, handle_async, functools.partial(handle)):
            with pytest.raises(HandlerLoadError, match="is a generator"):
                as_handler(generator)

    def test_a_failure_names_the_class_of_the_exception(self) -> None:
        """The name is the one that a traceback shows."""

        class Inner(Exception):  # noqa: N818 - its name is the point
            pass

        assert only_failure(run(raising(Inner()), record(0))).exception == Inner.__qualname__


USERS = """
class Base(Exception): pass
class Sub(Base): pass
not_a_class = Base()
answer = 42

def plain(record): pass
async def later(record, context): pass
class group:
    @staticmethod
    def inner(record): pass

class Instance:
    def __call__(self, record): pass

class Opened:
    log = []
    def __enter__(self):
        self.log.append("entered")
        return self
    def __exit__(self, kind, error, traceback):
        self.log.append("left")
    def __call__(self, record, context):
        self.log.append("called")

class Forgetful(Opened):
    def __enter__(self): pass

class AsyncOpened:
    log = []
    async def __aenter__(self):
        self.log.append("entered")
        return self
    async def __aexit__(self, kind, error, traceback):
        self.log.append("left")
    async def __call__(self, record, context):
        self.log.append("called")

class Both(AsyncOpened):
    def __enter__(self): raise AssertionError
    def __exit__(self, kind, error, traceback): raise AssertionError

class BothSync(Opened):
    async def __aenter__(self): raise AssertionError
    async def __aexit__(self, kind, error, traceback): raise AssertionError

class Plain(AsyncOpened):
    def __call__(self, record, context):
        self.log.append("called")

class Made(Plain):
    async def __aenter__(self):
        self.log.append("entered")
        return None
made = Made()

class AsyncForgetful(AsyncOpened):
    async def __aenter__(self): pass

class AsyncUnlucky(AsyncOpened):
    async def __aenter__(self): raise ConnectionError("database is down")

class Quitting(Opened):
    def __enter__(self): raise SystemExit(3)

class AsyncQuitting(AsyncOpened):
    async def __aenter__(self): raise SystemExit(3)

class Unlucky:
    def __init__(self): raise ConnectionError("database is down")

class Demanding:
    def __init__(self, database): pass
"""


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Handler]]:
    """The user's folder at the end of the path, as a worker has it; loads a handler from there."""
    (tmp_path / "billing_users_code.py").write_text(USERS)
    (tmp_path / "billing_quitting_code.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "billing_broken_code.py").write_text("import billing_no_such_library\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    with ExitStack() as stack:
        yield lambda target: load_handler(target, (), stack)
    for module in ("billing_users_code", "billing_broken_code"):
        sys.modules.pop(module, None)


class TestLoading:
    @pytest.mark.parametrize(
        ("name", "takes_context", "asynchronous"),
        [("plain", False, False), ("later", True, True), ("group.inner", False, False), ("Instance", False, False)],
    )
    def test_it_is_found_by_module_and_name(
        self,
        users: Callable[[str], Handler],
        name: str,
        takes_context: bool,  # noqa: FBT001 - a column of the table
        asynchronous: bool,  # noqa: FBT001 - as above
    ) -> None:
        """A class is instantiated; a dotted name leads into it."""
        found = users(f"billing_users_code:{name}")
        assert (found.takes_context, found.asynchronous) == (takes_context, asynchronous)

    def test_a_context_manager_is_open_for_as_long_as_the_worker_runs(self, users: Callable[[str], Handler]) -> None:
        """It is entered once at start and exited once at the end."""
        del users  # it puts the module on the path
        with ExitStack() as stack:
            handler = load_handler("billing_users_code:Opened", (), stack)
            log: list[str] = handler.call.log  # type: ignore[attr-defined]
            assert handler.takes_context
            assert log == ["entered"]
            handler.call(None, None)
        assert log == ["entered", "called", "left"]

    @pytest.mark.parametrize("name", ["AsyncOpened", "Both", "BothSync", "Plain", "made"])
    def test_an_asynchronous_context_manager_is_entered_on_the_loop(
        self, users: Callable[[str], Handler], name: str
    ) -> None:
        """Of both kinds the one that fits the call. An object, too, because its module cannot do it."""
        del users  # it puts the module on the path
        with ExitStack() as stack:
            handler = load_handler(f"billing_users_code:{name}", (), stack)
            log: list[str] = handler.call.log  # type: ignore[attr-defined]
            assert log == ["entered"]
            result = handler.call(None, None)
            if handler.asynchronous:
                handler.loop.run(result)
        assert log == ["entered", "called", "left"]

    @pytest.mark.parametrize(
        ("target", "problem"),
        [
            ("billing_nowhere:handle", "cannot be imported: ModuleNotFoundError: No module named 'billing_nowhere'"),
            ("billing_broken_code:handle", "No module named 'billing_no_such_library'"),
            ("billing_nowhere:handle", "; put billing_nowhere beside the configuration file, or install it$"),
            ("billing_users_code:missing", "module billing_users_code has no missing; correct the name"),
            ("billing_users_code:plian", "module billing_users_code has no plian; did you mean plain?"),
            ("billing_users_code:group.missing", "module billing_users_code has no group.missing"),
            ("billing_users_code:answer", "is not callable"),
            ("billing_users_code:Unlucky", "cannot be started: ConnectionError: database is down"),
            ("billing_users_code:Demanding", "cannot be started: TypeError: .*database"),
            ("billing_users_code:Forgetful", "end that method with `return self`"),
            ("billing_users_code:AsyncForgetful", "end that method with `return self`"),
            ("billing_users_code:AsyncUnlucky", "cannot be started: ConnectionError: database is down"),
            ("billing_users_code:Quitting", "cannot be started: SystemExit: 3"),
            ("billing_users_code:AsyncQuitting", "cannot be started: SystemExit: 3"),
            ("billing_quitting_code:handle", "cannot be imported: SystemExit: 3"),
        ],
    )
    def test_the_error_names_the_target_and_the_problem(
        self, users: Callable[[str], Handler], target: str, problem: str
    ) -> None:
        """The configured name and the fault, in one line."""
        with pytest.raises(HandlerLoadError, match=problem) as caught:
            users(target)
        assert str(caught.value).startswith(f"handler {target}: ")
        assert caught.value.target == target

    def test_the_error_names_the_folders_that_were_searched(
        self, users: Callable[[str], Handler], tmp_path: Path
    ) -> None:
        """The message says where it was looked for."""
        with pytest.raises(HandlerLoadError) as caught:
            users("billing_nowhere:handle")
        assert str(tmp_path) in str(caught.value)

    def test_a_failed_start_has_its_cause(self, users: Callable[[str], Handler]) -> None:
        """It is logged at debug level."""
        with pytest.raises(HandlerLoadError) as caught:
            users("billing_users_code:Unlucky")
        assert isinstance(caught.value.__cause__, ConnectionError)


class TestNotRetryable:
    def load(self, *names: str) -> Handler:
        """The plain handler with these exceptions."""
        with ExitStack() as stack:
            return load_handler("billing_users_code:plain", names, stack)

    @pytest.mark.usefixtures("users")
    @pytest.mark.parametrize("name", ["billing_users_code:Base", "builtins:LookupError", "LookupError"])
    def test_subclasses_are_not_retryable_either(self, name: str) -> None:
        """The class is the user's, or a builtin with or without its module."""
        handler = self.load(name)
        error = KeyError() if "Lookup" in name else sys.modules["billing_users_code"].Sub()
        assert handler.failure(error).kind is FailureKind.REJECTED
        assert handler.failure(OSError()).kind is FailureKind.RAISED

    @pytest.mark.usefixtures("users")
    @pytest.mark.parametrize(
        ("name", "problem"),
        [
            ("billing_users_code:answer", "is listed, but is not an exception class"),
            ("billing_users_code:not_a_class", "is listed, but is not an exception class"),
            ("int", "is listed, but is not an exception class"),
            ("billing_users_code:Missing", "module billing_users_code has no Missing"),
            ("NoSuchError", "module builtins has no NoSuchError"),
        ],
    )
    def test_other_objects_are_refused(self, name: str, problem: str) -> None:
        """At start, not when the handler raises."""
        with pytest.raises(HandlerLoadError, match=f"handler.notRetryable {name}: {problem}"):
            self.load(name)


def test_an_instance_that_is_a_context_manager_is_not_entered() -> None:
    """A module that creates an instance also opens it."""

    class Opened:
        def __enter__(self) -> Self:
            raise AssertionError("entered")

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
        ) -> None:
            raise AssertionError("left")

        def __call__(self, record: Record) -> None:
            pass

    assert not run(Opened(), record(0)).failures
