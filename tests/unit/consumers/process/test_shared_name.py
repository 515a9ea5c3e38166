"""Processes with one configured instance name have names of their own."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafka_redelivery.consumers.process.clients import Instance
from kafka_redelivery.consumers.process.shared_name import shared_instance
from kafka_redelivery.topology.config.loading import load_settings

SETTINGS = load_settings(
    "{group: billing, instance: web, kafka: {bootstrap.servers: a}, sources: [{topic: orders}]}", environment={}
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary files of this user."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_first_free_name_is_taken() -> None:
    """The configured one comes first, and a name that has become free is the next one."""
    with ExitStack() as stack:
        first = stack.enter_context(shared_instance(SETTINGS, "worker"))
        second = ExitStack()
        assert second.enter_context(shared_instance(SETTINGS, "worker")) == Instance("web.2", stable=True, leaves=True)
        assert stack.enter_context(shared_instance(SETTINGS, "worker")).name == "web.3"
        second.close()
        assert stack.enter_context(shared_instance(SETTINGS, "worker")).name == "web.2"
    assert first == Instance("web", stable=True)


def test_roles_and_groups_have_names_of_their_own() -> None:
    """A worker and a scheduler of one process have the same name."""
    other = SETTINGS.model_copy(update={"group": "shipping"})
    with (
        shared_instance(SETTINGS, "worker") as worker,
        shared_instance(SETTINGS, "scheduler") as scheduler,
        shared_instance(other, "worker") as another,
    ):
        assert {worker.name, scheduler.name, another.name} == {"web"}


def test_without_a_folder_the_name_is_random(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A name that another process may have would fence it."""
    (folder / f"kafka-redelivery-{os.geteuid()}").symlink_to(folder)
    with shared_instance(SETTINGS, "worker") as instance:
        assert (instance.name.startswith("random-"), instance.stable) == (True, False)
    assert "it is unknown whether another process has the instance name" in caplog.text


def test_without_a_configured_name_it_is_random() -> None:
    """And nothing is locked."""
    settings = SETTINGS.model_copy(update={"instance": None})
    with shared_instance(settings, "worker") as instance:
        assert not instance.stable
