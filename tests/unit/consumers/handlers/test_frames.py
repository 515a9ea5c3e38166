"""A failure names the user's own code: of a traceback the last frames that are neither ours nor a library's."""

import importlib.util
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kafka_redelivery.consumers.handlers.frames import MAX_FRAMES, traced
from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.consumers.handlers.record import Redeliver, Reject
from kafka_redelivery.topology.policy.decision import Failure, FailureDetails, FailureKind

_HERE = __name__


def _iban(value: dict[str, str]) -> str:
    return value["iban"]


def _charge(value: dict[str, str]) -> str:
    return _iban(value)


def _handler(record: object) -> None:
    """Never called: it is asked what an exception means."""


def _failure(call: Callable[[], object], handler: Callable[..., object] = _handler) -> Failure:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - any
        call()
    return as_handler(handler).failure(raised.value)


def _module(folder: Path, name: str, text: str) -> ModuleType:
    folder.mkdir(parents=True)
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_place_is_that_of_the_innermost_function() -> None:
    """With the functions that called it, each with its line, the innermost last."""
    failure = _failure(lambda: _charge({}))

    assert failure.place == f"{_HERE}._iban"
    assert [each.rpartition(":")[0] for each in failure.frames[-2:]] == [f"{_HERE}._charge", f"{_HERE}._iban"]
    line = _iban.__code__.co_firstlineno + 1
    assert failure.frames[-1].endswith(f":{line}")
    assert len(failure.frames) <= MAX_FRAMES


def test_frames_of_the_standard_library_and_of_libraries_are_left_out(tmp_path: Path) -> None:
    """The place is where the user's code called them."""
    library = _module(tmp_path / "site-packages", "bank", "def call():\n    raise ValueError('no')\n")

    def parse() -> None:
        json.loads("{")

    def call() -> None:
        library.call()

    assert _failure(parse).place.endswith("<locals>.parse")
    assert _failure(call).place.endswith("<locals>.call")


def test_an_installed_handler_is_the_users(tmp_path: Path) -> None:
    """Of the packages in `site-packages` that of the handler."""
    shop = _module(tmp_path / "site-packages", "shop", "def charge(record):\n    raise ValueError('no')\n")

    assert _failure(lambda: shop.charge(None), shop.charge).place == "shop.charge"


def test_without_a_frame_of_the_users_the_innermost_counts() -> None:
    """Such as of an output that cannot be encoded."""
    with pytest.raises(ValueError, match="Expecting") as raised:
        json.loads("")
    error = raised.value.with_traceback(raised.value.__traceback__ and raised.value.__traceback__.tb_next)

    assert as_handler(_handler).failure(error).place == "json.decoder.JSONDecoder.raw_decode"


def test_an_exception_that_was_not_raised_has_no_place() -> None:
    """A batch handler may fail a record with one that it has made."""
    assert as_handler(_handler).failure(ValueError("no")).frames == ()


def test_the_main_module_has_the_name_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a handler that a program has at hand fails in the same place as one that a worker imports."""
    main = _module(tmp_path / "programs", "orders", "def charge(record):\n    raise ValueError('no')\n")
    monkeypatch.setattr(main, "__name__", "__main__")
    monkeypatch.setattr(main, "__spec__", None)

    assert _failure(lambda: main.charge(None)).place == "orders.charge"


@pytest.mark.parametrize("kind", [Reject, Redeliver, ValueError])
def test_a_handler_that_rejects_says_where(kind: type[Exception]) -> None:
    """Each failure that may become a dead letter has its frames."""

    def reject() -> None:
        raise kind("no")

    assert _failure(reject).place.endswith("<locals>.reject")


def test_what_is_remembered_of_a_traceback_is_that_of_its_own_code() -> None:
    """Also if the code of an earlier one has been deleted, and another one is at its place in the memory."""
    for number in range(200):
        names: dict[str, Any] = {"__name__": f"shop{number}"}
        exec("def charge():\n    raise ValueError\n", names)  # noqa: S102 - nothing else keeps its code
        try:
            names["charge"]()
        except ValueError as error:
            found = traced(error).users[-1]
        names.clear()
        assert found == f"shop{number}.charge:2"


def test_an_endless_recursion_is_bounded() -> None:
    """Of a thousand frames the first and the last are kept."""

    def again() -> None:
        again()

    failure = _failure(again)
    assert len(failure.chain[0].frames) < 100
    assert failure.place.endswith("again")


def test_exceptions_that_led_to_it_are_kept_without_their_frames() -> None:
    """As names and numbers: a frame would keep the record, and could not leave a child process."""

    def wrapped() -> None:
        try:
            _charge({})
        except KeyError as error:
            raise ValueError("bad order") from error

    failure = _failure(wrapped)
    assert [(each.exception, each.message) for each in failure.chain] == [
        ("ValueError", "bad order"),
        ("KeyError", "'iban'"),
    ]
    assert failure.place.endswith("<locals>.wrapped")
    assert tuple(pickle.loads(pickle.dumps(failure))) == tuple(failure)  # noqa: S301 - its own


def test_class_only_leaves_the_place_alone() -> None:
    """Names in the code are no personal data; texts are left out, of all exceptions."""
    failure = FailureDetails.CLASS_ONLY.of(_failure(lambda: _charge({})))

    assert failure.frames == (f"{_HERE}._iban",)
    assert [each.message for each in failure.chain] == [""]
    assert FailureDetails.FULL.of(failure) is failure


def test_failures_are_equal_wherever_they_were_raised() -> None:
    """A test of a handler compares what they mean."""
    failure = _failure(lambda: _charge({}))
    expected = Failure(FailureKind.RAISED, "KeyError", "'iban'")

    assert failure == expected
    assert not failure != expected  # noqa: SIM202 - the other operator
    assert hash(failure) == hash(expected)
    assert failure != expected._replace(message="'bic'")
