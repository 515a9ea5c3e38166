"""Errors become one message and an exit code, never a traceback."""

import json
from pathlib import Path
from typing import Annotated

import pytest
import typer
from rich.table import Table
from typer.testing import CliRunner

from kafka_redelivery.cli.command import CHANGES, ReportingGroup, exit_code
from kafka_redelivery.cli.output import print_table, stdout
from kafka_redelivery.consumers.errors import CannotStartError, HaltedError, HandlerLoadError
from kafka_redelivery.serdes.errors import SchemaError
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.errors import HeaderError, OptionError
from kafka_redelivery.topology.faults import ConfigurationError, Fault, Severity, TopologyFault
from kafka_redelivery.transport.admin.errors import (
    AdminError,
    NotAuthorisedError,
    TopologyRefusedError,
)
from kafka_redelivery.transport.errors import (
    BrokerUnavailableError,
    ClientSettingsError,
    ReaderError,
    WriterFencedError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError((Fault("a", "b", "c"),)), 3),
        (ClientSettingsError("x"), 3),
        (HandlerLoadError("a:b", "x", "y"), 3),
        (CannotStartError("x"), 3),
        (SchemaError("a.avsc", "x"), 3),
        (BrokerUnavailableError("x:1"), 4),
        (TopologyRefusedError(()), 5),
        (OptionError("from", "x"), 2),
        (HaltedError("x"), 6),
        (ReaderError("x"), 6),
        (WriterFencedError("x"), 6),
        (AdminError("a", "b"), 1),
        (NotAuthorisedError("a", "b"), 1),
        (HeaderError("a", "b"), 1),
        (ZeroDivisionError(), 70),
    ],
)
def test_exit_code_of_each_error(error: Exception, code: int) -> None:
    """These numbers are an interface."""
    assert exit_code(error) == code


def app_that_raises(error: Exception) -> typer.Typer:
    """Return a command line whose only command raises the error."""
    app = typer.Typer(cls=ReportingGroup, pretty_exceptions_enable=False)

    @app.callback()
    def options(debug: bool = False) -> None:  # noqa: FBT001, FBT002
        """Declare ``--debug`` as ``redelivery`` does."""

    @app.command()
    def fail(as_json: Annotated[bool, typer.Option("--json")] = False) -> None:  # noqa: ARG001, FBT002
        raise error

    @app.command()
    def change(ctx: typer.Context, as_json: Annotated[bool, typer.Option("--json")] = False) -> None:  # noqa: ARG001, FBT002
        ctx.meta[CHANGES] = [{"create": "t"}]
        raise error

    return app


def test_error_is_one_line() -> None:
    """Even on a narrow terminal, so that it can be found in a log."""
    error = BrokerUnavailableError("no answer of broker-with-a-rather-long-name.example" + ", connection refused" * 10)
    result = CliRunner(env={"COLUMNS": "40"}).invoke(app_that_raises(error), ["fail"])
    assert result.exit_code == exit_codes.BROKER_UNAVAILABLE
    assert result.stdout == ""
    assert result.stderr == f"error: {error}\n"


def test_markup_in_a_message_is_text() -> None:
    """Brackets in a name are printed."""
    result = CliRunner().invoke(app_that_raises(AdminError("make", "[red]x[/red] [/]")), ["fail"])
    assert result.stderr == "error: make: [red]x[/red] [/]\n"


@pytest.mark.parametrize("text", ["handlers:bank: is not callable", "a :warning: of [bold]b[/bold]"])
def test_emoji_names_in_a_message_are_text(text: str) -> None:
    """A text like the name of an emoji stays text."""
    result = CliRunner().invoke(app_that_raises(AdminError("load", text)), ["fail"])
    assert result.stderr == f"error: load: {text}\n"


def test_markup_in_a_table_is_text() -> None:
    """Without a terminal no line has trailing blanks."""
    app = typer.Typer()

    @app.command()
    def show() -> None:
        table = Table(box=None, show_header=False)
        table.add_row("a:bank:", "[red]x[/red]" * 100)
        table.add_row("b", "short")
        print_table(stdout(), table)

    lines = CliRunner().invoke(app, []).stdout.splitlines()
    assert [line.split() for line in lines] == [["a:bank:", "[red]x[/red]" * 100], ["b", "short"]]
    assert lines == [line.rstrip() for line in lines]


@pytest.mark.parametrize(
    ("error", "name", "message", "faults"),
    [
        (BrokerUnavailableError("x:1"), "broker_unavailable", "x:1", []),
        (KeyError("lost"), "internal", "internal error: KeyError: 'lost'; redelivery --debug prints the traceback", []),
        (
            ConfigurationError((Fault("a", "b", "c"),)),
            "configuration",
            "the configuration has 1 fault",
            [{"location": "a", "problem": "b", "fix": "c"}],
        ),
        (
            TopologyRefusedError((TopologyFault(Severity.REFUSE, "t", "p", "l", "f"),)),
            "topology_refused",
            "the topology has 1 fault that would lose or block records",
            [{"severity": "refuse", "topic": "t", "problem": "p", "loss": "l", "fix": "f"}],
        ),
    ],
)
def test_error_as_json(error: Exception, name: str, message: str, faults: list[dict[str, str]]) -> None:
    """One object on standard output, nothing on standard error, the same exit code."""
    result = CliRunner().invoke(app_that_raises(error), ["fail", "--json"])
    assert result.exit_code == exit_code(error)
    assert result.stderr == ""
    assert json.loads(result.stdout) == {"ok": False, "error": name, "message": message, "faults": faults}


def test_usage_error_as_json() -> None:
    """An unknown option is an object on standard output, and usage text on standard error."""
    result = CliRunner().invoke(app_that_raises(AdminError("make", "no")), ["fail", "--json", "--typo"])
    assert result.exit_code == exit_codes.USAGE
    found = json.loads(result.stdout)
    assert (found["error"], found["faults"]) == ("usage", [])
    assert "--typo" in found["message"]


def test_every_code_has_a_name_and_a_meaning() -> None:
    """The help and the JSON output cover all codes."""
    codes = {value for value in vars(exit_codes).values() if isinstance(value, int)}
    assert set(exit_codes.MEANINGS) == codes
    assert set(exit_codes.NAMES) == codes - {exit_codes.OK}


def test_unexpected_exception_is_an_internal_error() -> None:
    """Its message says how to print the traceback."""
    result = CliRunner().invoke(app_that_raises(KeyError("lost")), ["fail"])
    assert result.exit_code == exit_codes.INTERNAL
    assert result.stderr == "error: internal error: KeyError: 'lost'; redelivery --debug prints the traceback\n"


def test_debug_prints_the_traceback() -> None:
    """The traceback follows the message."""
    result = CliRunner().invoke(app_that_raises(AdminError("make", "no")), ["--debug", "fail"])
    assert result.exit_code == exit_codes.FAILED
    assert result.stderr.startswith("error: make: no\nTraceback")
    assert Path(__file__).name in result.stderr


def test_an_error_as_json_has_what_was_changed_before_it() -> None:
    """A script that applies a topology knows what is done."""
    found = CliRunner().invoke(app_that_raises(AdminError("a", "b")), ["change", "--json"])
    assert json.loads(found.stdout)["changes"] == [{"create": "t"}]
    assert "changes" not in json.loads(
        CliRunner().invoke(app_that_raises(AdminError("a", "b")), ["fail", "--json"]).stdout
    )
