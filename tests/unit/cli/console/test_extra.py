"""Without the extra the command says what to install."""

import importlib.util
from importlib.machinery import ModuleSpec

import pytest

from kafka_redelivery.cli.console.command import ConsoleCommand
from kafka_redelivery.consumers.errors import ConsumersError


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is read or opened."""
    found = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "starlette" else found(name, package)

    monkeypatch.setattr("kafka_redelivery.cli.console.command.find_spec", without)
    with pytest.raises(ConsumersError, match=r"kafka-redelivery\[console\]"):
        ConsoleCommand()()
