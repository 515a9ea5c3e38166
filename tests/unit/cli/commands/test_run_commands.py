"""`redelivery worker`, `scheduler` and `run` with an App instead of a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from kafka_redelivery import App
from kafka_redelivery.cli.main import app as command
from kafka_redelivery.cli.options import DEFAULT_CONFIG, find_app
from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.faults import ConfigurationError

MODULE = """
from kafka_redelivery import App
app = App(group="billing", kafka={"bootstrap.servers": "127.0.0.1:1"}, sources=["orders"])
other = 7
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with a module."""
    (tmp_path / "the_service.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("the_service", None)


def test_an_app_is_imported_from_the_current_folder(folder: Path) -> None:
    """Which is searched last, so that it hides no installed module."""
    assert find_app("the_service:app", DEFAULT_CONFIG).settings.group == "billing"
    assert sys.path[-1] == str(folder)


def test_an_app_is_made_of_a_file(folder: Path) -> None:
    """If none is named."""
    with pytest.raises(ConfigurationError, match="there is no such file"):
        find_app(None, DEFAULT_CONFIG)
    (folder / "redelivery.yaml").write_text("{group: a, kafka: {bootstrap.servers: a}, sources: [{topic: orders}]}")
    assert find_app(None, DEFAULT_CONFIG).settings.group == "a"


def test_what_is_no_app_is_refused() -> None:
    """With the fix; and so are an App and a file."""
    with pytest.raises(HandlerLoadError, match=r"the_service:other: is no App; name the object"):
        find_app("the_service:other", DEFAULT_CONFIG)
    with pytest.raises(HandlerLoadError, match="did you mean app"):
        find_app("the_service:apq", DEFAULT_CONFIG)
    with pytest.raises(typer.BadParameter, match="name either an App or a file"):
        find_app("the_service:app", Path("other.yaml"))


@pytest.mark.parametrize("verb", ["plan", "acls"])
def test_the_topology_of_an_app(verb: str) -> None:
    """Without a file, also with settings of the command line."""
    more = ["--offline", "--partitions", "orders=3"] if verb == "plan" else []
    found = CliRunner().invoke(command, ["topology", verb, "--app", "the_service:app", *more, "--set", "group=shop"])
    assert found.exit_code == 0, found.output
    assert "shop.ready.orders" in found.stdout


@pytest.mark.parametrize(
    ("name", "expected"), [("worker", {}), ("run", {"scheduler": True})], ids=["worker", "worker and scheduler"]
)
def test_the_commands_run_it(name: str, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """With the flags."""
    calls = []
    monkeypatch.setattr(App, "run", lambda _, **options: calls.append(options))
    result = CliRunner().invoke(command, [name, "--app", "the_service:app", "--set", "limits.batch=7"])
    assert (result.exit_code, calls) == (0, [{"overrides": ["limits.batch=7"], **expected}])


def test_the_scheduler_runs_with_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs no handlers."""
    calls: list[Settings] = []
    monkeypatch.setattr("kafka_redelivery.consumers.scheduler.run.run_scheduler", calls.append)
    result = CliRunner().invoke(command, ["scheduler", "--app", "the_service:app", "--set", "instance=s1"])
    assert (result.exit_code, [(each.group, each.instance) for each in calls]) == (0, [("billing", "s1")])
