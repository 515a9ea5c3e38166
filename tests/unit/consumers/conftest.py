"""Shortens the waits of the worker in tests that simulate the time."""

import pytest

from kafka_redelivery.consumers.handlers import processor
from kafka_redelivery.consumers.worker import worker
from kafka_redelivery.consumers.writes import abort_deadline, committer


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that hardly waits for its slots, and not for more outcomes before a write nor after an aborted one."""
    monkeypatch.setattr(worker, "_MAX_COLLECT_WAIT_S", 0.00001)
    # The real clock would end a work item early on a busy machine, and so change what a seed leads to.
    monkeypatch.setattr(processor, "SLICE_S", 600.0)
    monkeypatch.setattr(committer, "LINGER_S", 0.0)
    monkeypatch.setattr(abort_deadline, "_FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(abort_deadline, "_LONGEST_PAUSE_S", 0.0)
