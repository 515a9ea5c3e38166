"""The one place where errors become an exit code and a short message: on standard error, or as JSON if asked for."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from cli import exit_codes
from cli.output import print_json, stderr
from topology.faults import Fault
from topology.topology_fault import TopologyFault

_DEBUG = "debug"
_AS_JSON = "cli.errors.as_json"


class ReportingGroup(TyperGroup):
    """A command group that ends in a message instead of a traceback."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Note whether the command below is asked for JSON: an error may come before it has read its options."""
        ctx.meta[_AS_JSON] = "--json" in args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # noqa: ANN401 - as its base
        """Run the chosen command."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            code = report(error, as_json=ctx.meta[_AS_JSON])
            if code is None:
                raise
            if ctx.params.get(_DEBUG):
                stderr().print("".join(traceback.format_exception(error)), markup=False, end="")
            raise typer.Exit(code) from None


def report(error: Exception, *, as_json: bool) -> int | None:
    """Tell an error; ``None`` for what belongs to the command line itself, which it tells (in text) itself."""
    if type(error).__module__.partition(".")[0] in {"typer", "click"}:
        told = getattr(error, "format_message", None)  # what wrong usage has, and what merely ends a command has not
        if as_json and told is not None:
            _print_error(exit_codes.USAGE, told())
        return None
    code = exit_code(error)
    message = str(error)
    if code == exit_codes.INTERNAL:
        message = f"internal error: {type(error).__name__}: {error} (--debug shows where)"
    head, _, rest = message.partition("\n")
    if as_json:
        faults = getattr(error, "faults", ())
        _print_error(code, head if faults else message, faults)
        return code
    console = stderr()
    console.print("error:", style="bold red", end=" ")
    console.print(head, markup=False)
    if rest:
        console.print(rest, markup=False)
    return code


def _print_error(code: int, message: str, faults: Sequence[Fault | TopologyFault] = ()) -> None:
    documents = [fault.document() for fault in faults]
    print_json({"ok": False, "error": exit_codes.NAMES[code], "message": message, "faults": documents})


def exit_code(error: Exception) -> int:
    """The exit code of an error, by its class."""
    from consumers.errors import ConsumersError, EndpointError, HaltedError, HandlerLoadError
    from pipeline.archive_errors import TableFormatError
    from pipeline.audit_range import EdgeError
    from pipeline.errors import (
        KafkaOptionError,
        PipelineError,
        SparkUnavailableError,
        StreamHaltedError,
        StreamRefusedError,
    )
    from serdes.errors import SerdeError
    from topology.errors import TopologyError
    from topology.faults import ConfigurationError
    from topology.migration.result import MigrationError
    from transport.admin_errors import ClientSettingsError, TopologyRefusedError
    from transport.errors import BrokerUnavailableError, ReaderError, TransportError, WriterFencedError

    known: tuple[tuple[tuple[type[Exception], ...], int], ...] = (
        ((ConfigurationError, ClientSettingsError, MigrationError, SerdeError), exit_codes.CONFIGURATION),
        ((HandlerLoadError, EndpointError), exit_codes.CONFIGURATION),
        ((KafkaOptionError, SparkUnavailableError, StreamRefusedError, TableFormatError), exit_codes.CONFIGURATION),
        ((EdgeError,), exit_codes.USAGE),
        ((BrokerUnavailableError,), exit_codes.BROKER_UNAVAILABLE),
        ((TopologyRefusedError,), exit_codes.TOPOLOGY_REFUSED),
        ((HaltedError, ReaderError, WriterFencedError, StreamHaltedError), exit_codes.HALTED),
        ((TopologyError, TransportError, ConsumersError, PipelineError), exit_codes.FAILED),
    )
    return next((code for classes, code in known if isinstance(error, classes)), exit_codes.INTERNAL)
