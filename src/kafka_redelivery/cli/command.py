"""How commands run: options of many are one object; an error is a message and an exit code, not a traceback.

With ``--json`` the message is an object on standard output, otherwise text on standard error.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandFunctionType

from kafka_redelivery.cli.output import print_json, stderr
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.errors import OptionError
from kafka_redelivery.topology.faults import Fault, TopologyFault

_LIBRARIES = {"typer", "click"}
_DEBUG = "debug"
_AS_JSON = "kafka_redelivery.cli.command.as_json"

CHANGES = "kafka_redelivery.cli.command.changes"
"""Where the context of a command has the list of changes that it has made, as JSON: an error is printed with them."""


class Command(TyperCommand):
    """A command that is a function of its options, or a dataclass with a field for each of them.

    Of a dataclass it makes an object, and calls that. An :class:`OptionError` becomes a usage error of the option.
    """

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # noqa: ANN401 - as its base
        """Run the command."""
        try:
            made = super().invoke(ctx)
            return ctx.invoke(made) if callable(made) else made
        except OptionError as error:
            raise typer.BadParameter(str(error), ctx, param_hint=f"--{error.option}") from None


class Commands(typer.Typer):
    """A group of such commands."""

    def command(  # its base names each setting
        self,
        name: str | None = None,
        **settings: Any,  # noqa: ANN401
    ) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """Return a decorator that adds a command."""
        return super().command(name, cls=Command, **settings)


class ReportingGroup(TyperGroup):
    """A command group that turns an exception into a message and an exit code instead of a traceback."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Remember whether ``--json`` is given: an error may come before the command has read its options."""
        ctx.meta[_AS_JSON] = "--json" in args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # noqa: ANN401 - as its base
        """Run the chosen command."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            code = report(error, as_json=ctx.meta[_AS_JSON], changes=ctx.meta.get(CHANGES))
            if code is None:
                raise
            if ctx.params.get(_DEBUG):
                stderr().print("".join(traceback.format_exception(error)), markup=False, end="")
            raise typer.Exit(code) from None


def report(error: Exception, *, as_json: bool, changes: Sequence[object] | None = None) -> int | None:
    """Print an error and return its exit code.

    ``None`` for the exceptions of the command-line library itself, which prints usage errors as text, and ends without
    a message if nothing reads its help.
    """
    if type(error).__module__.partition(".")[0] in _LIBRARIES or _is_unread_help(error):
        format_message = getattr(error, "format_message", None)  # only usage errors have it
        if as_json and format_message is not None:
            _print_error(exit_codes.USAGE, format_message())
        return None
    code = exit_code(error)
    message = str(error)
    if code == exit_codes.INTERNAL:
        message = f"internal error: {type(error).__name__}: {error}; redelivery --debug prints the traceback"
    head, _, rest = message.partition("\n")
    if as_json:
        faults = getattr(error, "faults", ())
        _print_error(code, head if faults else message, faults, changes)
        return code
    console = stderr()
    console.print("error:", style="bold red", end=" ")
    console.print(head, markup=False)
    if rest:
        console.print(rest, markup=False)
    return code


def _is_unread_help(error: Exception) -> bool:
    """Whether the library could not write. What the commands write goes through ``output.py``, which handles that."""
    if not isinstance(error, BrokenPipeError):
        return False
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals["__name__"]).partition(".")[0] in _LIBRARIES


def _print_error(
    code: int,
    message: str,
    faults: Sequence[Fault | TopologyFault] = (),
    changes: Sequence[object] | None = None,
) -> None:
    documents = [fault.document() for fault in faults]
    made = {} if changes is None else {"changes": list(changes)}
    print_json({"ok": False, "error": exit_codes.NAMES[code], "message": message, "faults": documents} | made)


def exit_code(error: Exception) -> int:
    """Return the ``exit_code`` of the error's class; 70 (internal) for a class without one."""
    return getattr(type(error), "exit_code", exit_codes.INTERNAL)
