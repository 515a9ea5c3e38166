"""A command is a function of its options, or a dataclass with a field for each of them."""

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from kafka_redelivery.cli.command import Commands
from kafka_redelivery.cli.output import print_text
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.errors import OptionError


@dataclass(frozen=True, kw_only=True)
class _Sized:
    size: Annotated[int, typer.Option("--size", min=1, help="How many.")] = 3


@dataclass(frozen=True, kw_only=True)
class Sent(_Sized):
    """Send it."""

    name: Annotated[str, typer.Argument(metavar="NAME")]
    quick: Annotated[bool, typer.Option("--quick")] = False

    def __call__(self) -> None:
        if self.quick and self.size > 5:
            raise OptionError("quick", "is for few")
        print_text(f"{self.name} {self.size} {self.quick}")


app = Commands()
app.command()(Sent)


@app.command()
def read(since: str = "") -> None:
    """Read it."""
    raise OptionError("since", f"{since!r} is no time")


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [("a", "a 3 False"), ("--size 4 a --quick", "a 4 True"), ("a --size=5 --quick", "a 5 True")],
)
def test_an_object_has_its_options_and_those_of_its_base(arguments: str, printed: str) -> None:
    """With their defaults."""
    done = CliRunner().invoke(app, ["sent", *arguments.split()])
    assert (done.exit_code, done.stdout) == (exit_codes.OK, f"{printed}\n")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("sent a --quick --size 6", "Invalid value for --quick: is for few"),
        ("read --since x", "Invalid value for --since: 'x' is no time"),
        ("sent a --size 0", "Invalid value for '--size'"),
    ],
)
def test_a_wrong_option_is_a_usage_error_of_its_command(arguments: str, problem: str) -> None:
    """As one that typer itself finds."""
    done = CliRunner().invoke(app, arguments.split())
    told = " ".join(done.stderr.replace("\u2502", " ").split())
    assert done.exit_code == exit_codes.USAGE
    assert problem in told
    assert f"Usage: root {arguments.split(maxsplit=1)[0]} [OPTIONS]" in told


def test_the_help_is_that_of_the_class() -> None:
    """Its text, and all options."""
    told = CliRunner().invoke(app, ["sent", "--help"]).stdout
    for each in ("Send it.", "--size", "How many.", "--quick", "NAME"):
        assert each in told
