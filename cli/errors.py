"""The one place where our errors become a short message on standard error and an exit code."""

from __future__ import annotations

import traceback
from typing import Any

import typer
from typer.core import TyperGroup

from cli import exit_codes
from cli.output import stderr

_DEBUG = "debug"


class ReportingGroup(TyperGroup):
    """A command group that ends in a message instead of a traceback."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # noqa: ANN401 - as its base
        """Run the chosen command."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            code = report(error)
            if code is None:
                raise
            if ctx.params.get(_DEBUG):
                stderr().print("".join(traceback.format_exception(error)), markup=False, end="")
            raise typer.Exit(code) from None


def report(error: Exception) -> int | None:
    """Tell an error; ``None`` for what belongs to the command line itself."""
    if type(error).__module__.partition(".")[0] in {"typer", "click"}:
        return None
    code = exit_code(error)
    message = str(error)
    if code == exit_codes.INTERNAL:
        message = f"internal error: {type(error).__name__}: {error} (--debug shows where)"
    head, _, rest = message.partition("\n")
    console = stderr()
    console.print("error:", style="bold red", end=" ")
    console.print(head, markup=False)
    if rest:
        console.print(rest, markup=False)
    return code


def exit_code(error: Exception) -> int:
    """The exit code of an error, by its class."""
    from consumers.errors import ConsumersError, HaltedError, HandlerLoadError
    from serdes.errors import SerdeError
    from topology.errors import TopologyError
    from topology.faults import ConfigurationError
    from transport.admin_errors import ClientSettingsError, TopologyRefusedError
    from transport.errors import BrokerUnavailableError, ReaderError, TransportError, WriterFencedError

    known: tuple[tuple[tuple[type[Exception], ...], int], ...] = (
        ((ConfigurationError, ClientSettingsError, HandlerLoadError, SerdeError), exit_codes.CONFIGURATION),
        ((BrokerUnavailableError,), exit_codes.BROKER_UNAVAILABLE),
        ((TopologyRefusedError,), exit_codes.TOPOLOGY_REFUSED),
        ((HaltedError, ReaderError, WriterFencedError), exit_codes.HALTED),
        ((TopologyError, TransportError, ConsumersError), exit_codes.FAILED),
    )
    return next((code for classes, code in known if isinstance(error, classes)), exit_codes.INTERNAL)
