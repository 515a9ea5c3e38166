"""Commands whose options are one object, and mistakes of a person as usage errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand
from typer.models import CommandFunctionType

from kafka_redelivery.topology.errors import OptionError


class Command(TyperCommand):
    """A command that is a function of its options, or a dataclass with a field for each of them.

    Of a dataclass an object is made, which is then called. What it is told wrong by an :class:`OptionError` is a usage
    error of the option.
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
