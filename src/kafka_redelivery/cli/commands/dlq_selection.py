"""The options that select dead letters, for commands that are functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any

from kafka_redelivery.cli.commands.dlq_options import IndexFolder, OfGroup, OnLetters, Selecting

__all__ = ("IndexFolder", "OfGroup", "selecting")


def selecting(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that select dead letters, in place of its parameter ``wanted``."""
    names = {each.name for each in fields(Selecting)} - {each.name for each in fields(OnLetters)} - {"index"}
    options = {name: each for name, each in inspect.signature(Selecting).parameters.items() if name in names}

    @wraps(command)
    def run(**values: Any) -> None:  # noqa: ANN401 - the values of all options
        wanted = Selecting(**{name: values.pop(name) for name in options}).selection()
        command(wanted=wanted, **values)

    parameters: list[inspect.Parameter] = []
    for name, each in inspect.signature(command, eval_str=True).parameters.items():
        parameters += options.values() if name == "wanted" else [each]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # what typer reads
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run
