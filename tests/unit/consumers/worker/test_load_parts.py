"""A worker calls the functions that it is given, and imports all others by their names."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafka_redelivery import App, Record
from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.consumers.worker.run import load_parts
from kafka_redelivery.topology.config.settings import Settings


def local() -> tuple[App, object]:
    """Return an App with a handler that has no importable name."""
    app = App(group="billing", kafka={"bootstrap.servers": "a"}, handler={"slots": 2}, environment={})

    @app.handler("orders")
    async def charge(_: Record) -> None:
        pass

    return app, charge


def load(app: App, settings: Settings, base: Path) -> dict[str, object]:
    """Return what is called for each topic."""
    with ExitStack() as stack:
        parts = load_parts(settings, base, stack, app._given)
        return {topic: parts.handlers[section].call for topic, section in settings.handlers.items()}


def test_functions_need_no_module(tmp_path: Path) -> None:
    """And ``sys.path`` stays as it is."""
    app, charge = local()
    before = [*sys.path]
    assert load(app, app.settings, tmp_path) == {"orders": charge}
    assert sys.path == before


def test_functions_and_names_are_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the configuration is searched for names, once."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "mixed_handlers.py").write_text("def refund(record): pass\n")
    file = tmp_path / "redelivery.yaml"
    file.write_text(
        "{group: a, kafka: {bootstrap.servers: a}, sources: [{topic: refunds}], "
        "handler: {callable: 'mixed_handlers:refund'}}"
    )
    app = App.from_config(file, environment={})
    charge = local()[1]
    app.handler("orders")(charge)  # type: ignore[type-var]
    for _ in range(2):
        called = load(app, app.settings, tmp_path)
        assert called["orders"] is charge
        assert called["refunds"] is sys.modules["mixed_handlers"].refund
    assert sys.path.count(str(tmp_path)) == 1
    del sys.modules["mixed_handlers"]


def test_a_child_process_needs_the_name() -> None:
    """It would not find a local function."""
    app = local()[0]
    isolated = app.settings_with(["handler.isolation=process"])
    with pytest.raises(HandlerLoadError, match="is defined within a function, where"):
        load(app, isolated, Path())
