"""What an archive that follows says."""

from datetime import timedelta
from threading import Event
from typing import Any

import pytest

from kafka_redelivery.pipeline.archive import archive
from kafka_redelivery.pipeline.archive.archive import ArchiveRun, follow


def test_a_run_that_does_not_know_the_states_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it has changed nothing. A run without changes or problems is not."""
    stop, unknown = Event(), ArchiveRun(states_problem="topic billing.dlq.jobs does not exist")
    runs = [ArchiveRun(), unknown, ArchiveRun(states=2)]

    def run_archive(*_given: object, **_options: object) -> ArchiveRun:
        run = runs.pop(0)
        if not runs:
            stop.set()
        return run

    monkeypatch.setattr(archive, "run_archive", run_archive)
    nothing: Any = None  # is given to each run
    assert [*follow(nothing, nothing, timedelta(0), stop)] == [unknown, ArchiveRun(states=2)]
