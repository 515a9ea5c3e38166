"""Errors become one message and an exit code, never a traceback."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cli import exit_codes
from cli.errors import ReportingGroup, exit_code
from consumers.errors import HaltedError, HandlerLoadError
from serdes.errors import SchemaError
from topology.errors import HeaderError
from topology.faults import ConfigurationError, Fault
from transport.admin_errors import (
    AdminError,
    ClientSettingsError,
    GroupActiveError,
    NotAuthorisedError,
    TopologyRefusedError,
)
from transport.errors import BrokerUnavailableError, MissingOffsetError, WriterFencedError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError((Fault("a", "b", "c"),)), 3),
        (ClientSettingsError("x"), 3),
        (HandlerLoadError("a:b", "x"), 3),
        (SchemaError("a.avsc", "x"), 3),
        (BrokerUnavailableError("x:1"), 4),
        (TopologyRefusedError(()), 5),
        (HaltedError("x"), 6),
        (MissingOffsetError("x"), 6),
        (WriterFencedError("x"), 6),
        (GroupActiveError("g", 1), 1),
        (AdminError("a", "b"), 1),
        (NotAuthorisedError("a", "b"), 1),
        (HeaderError("a", "b"), 1),
        (ZeroDivisionError(), 70),
    ],
)
def test_exit_codes(error: Exception, code: int) -> None:
    """Each class of error has its code; these numbers are an interface."""
    assert exit_code(error) == code


def app_that_raises(error: Exception) -> typer.Typer:
    """A command line whose one command ends in an error."""
    app = typer.Typer(cls=ReportingGroup, pretty_exceptions_enable=False)

    @app.callback()
    def options(debug: bool = False) -> None:  # noqa: FBT001, FBT002
        """As in ours."""

    @app.command()
    def fail() -> None:
        raise error

    return app


def test_an_error_is_one_line() -> None:
    """However narrow the terminal is: whoever searches a log for it finds it."""
    error = BrokerUnavailableError("broker-with-a-rather-long-name.example:9092", "connection refused " * 10)
    result = CliRunner(env={"COLUMNS": "40"}).invoke(app_that_raises(error), ["fail"])
    assert result.exit_code == exit_codes.BROKER_UNAVAILABLE
    assert result.stdout == ""
    assert result.stderr == f"error: {error}\n"


def test_markup_in_a_message_is_text() -> None:
    """A name with brackets is not eaten by the colours."""
    result = CliRunner().invoke(app_that_raises(AdminError("make", "[red]x[/red] [/]")), ["fail"])
    assert result.stderr == "error: make: [red]x[/red] [/]\n"


def test_a_fault_of_ours_says_so() -> None:
    """What is nobody's mistake but ours is an internal error, with a hint how to see more."""
    result = CliRunner().invoke(app_that_raises(KeyError("lost")), ["fail"])
    assert result.exit_code == exit_codes.INTERNAL
    assert result.stderr == "error: internal error: KeyError: 'lost' (--debug shows where)\n"


def test_debug_shows_where() -> None:
    """With ``--debug`` the traceback follows the message."""
    result = CliRunner().invoke(app_that_raises(AdminError("make", "no")), ["--debug", "fail"])
    assert result.exit_code == exit_codes.FAILED
    assert result.stderr.startswith("error: make: no\nTraceback")
    assert Path(__file__).name in result.stderr
