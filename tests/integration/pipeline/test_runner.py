"""What a Python worker keeps between tasks belongs to one query, and queries of several groups share the worker."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_redelivery.consumers.telemetry.logs import TEXT
from kafka_redelivery.pipeline.handler.child import HandlerConfig
from kafka_redelivery.pipeline.handler.handling import Handling
from kafka_redelivery.pipeline.task import runner
from kafka_redelivery.pipeline.task.contract import TaskPlan
from kafka_redelivery.pipeline.task.runner import Runner, runner_for
from kafka_redelivery.pipeline.task.task import standard_library_first
from kafka_redelivery.topology.config.loading import load_settings


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Close all runners of this process."""
    yield
    while runner._RUNNERS:
        runner._RUNNERS.popitem()[1].close()


def test_queries_of_two_groups_keep_their_handler_processes(tmp_path: Path) -> None:
    """Tasks of two queries alternate in one worker. Only a new query of the same group closes an earlier one's."""
    first, other = _plan(tmp_path, "a"), _plan(tmp_path, "b")
    mine, theirs = runner_for(first), runner_for(other)

    assert runner_for(first) is mine
    assert runner_for(other) is theirs

    again = runner_for(replace(first, query="later", running=frozenset({"later", "query a", "query b"})))

    assert again is not mine
    assert _closed_handler(mine)
    assert runner_for(other) is theirs


def test_the_runner_of_a_query_that_has_ended_is_closed(tmp_path: Path) -> None:
    """By the next task of another group."""
    plans = _plan(tmp_path, "a"), _plan(tmp_path, "b")
    ended, own = map(runner_for, plans)

    assert runner_for(replace(plans[1], running=frozenset({"query b"}))) is own
    assert _closed_handler(ended)


def test_files_of_a_job_come_behind_the_standard_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """They stay before what is installed, as Spark has it."""
    library, installed = str(Path(json.__file__).parent.parent), "/venv/site-packages"
    given = ["/spark.zip", "/files", "/files/more.zip", library, f"{library}/lib-dynload", installed]
    monkeypatch.setattr(sys, "path", given)

    standard_library_first("/files")

    assert sys.path == ["/spark.zip", library, f"{library}/lib-dynload", "/files", "/files/more.zip", installed]


def _closed_handler(found: Runner) -> bool:
    return isinstance(found.handler, Handling) and found.handler._child is None


def _plan(folder: Path, group: str) -> TaskPlan:
    (folder / "handlers.py").write_text("def handle(record): pass", encoding="utf-8")
    document = {
        "group": group,
        "kafka": {"bootstrap.servers": "localhost:1", "log_level": 0},
        "sources": [{"topic": "t"}],
        "handler": {"callable": "handlers:handle"},
        "pipeline": {"checkpoint": "c"},
    }
    config = HandlerConfig(load_settings(json.dumps(document)), folder, (*sys.path, str(folder)), 30, TEXT)
    queries = frozenset({"query a", "query b"})
    return TaskPlan(f"query {group}", config, None, {}, {}, running=queries)
