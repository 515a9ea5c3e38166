"""A job that was created a moment ago, while the topics of the jobs are slow to read."""

from http import HTTPStatus
from pathlib import Path

import pytest

from kafka_redelivery.cli.console import tasks
from kafka_redelivery.cli.console.access import Role, User
from kafka_redelivery.cli.console.job_book import Jobs
from kafka_redelivery.cli.console.pages import jobs
from tests.unit.cli.console.consoles import client, console_of, guarded


def test_its_page_is_shown_as_soon_as_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows yet whether it exists, so the page does not say that it does not."""
    monkeypatch.setattr(jobs, "_FRESH_S", 0.1)
    console = console_of(tmp_path)
    console.jobs.value = Jobs({}, [], 0)

    answer = client(guarded(console)).get("/jobs/abc")

    assert answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE
    assert "the topics of the jobs are being read" in answer.text
    assert 'hx-get="/jobs/abc" hx-trigger="sse:jobs"' in answer.text


def test_a_job_that_does_not_exist_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The topics have been read to their end since the page was asked for."""
    monkeypatch.setattr(jobs, "_FRESH_S", 60)
    console = console_of(tmp_path)
    monkeypatch.setattr(console.jobs, "_produce", lambda: Jobs({}, [], 0))
    console.jobs.start()
    try:
        assert client(guarded(console)).get("/jobs/abc").status_code == HTTPStatus.NOT_FOUND
    finally:
        console.jobs.stop()


def test_the_last_ones_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as fit, and none is dropped before."""
    monkeypatch.setattr(tasks, "_KEPT", 4)
    ours, begun = console_of(tmp_path).tasks, list[str]()
    for _ in range(6):
        task = ours.begin(User("ann", Role.ADMIN), "purge", lambda _: None)
        assert task.settled.wait(10)
        begun.append(task.id)
        assert list(ours.tasks) == begun[-4:]
