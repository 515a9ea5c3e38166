"""Worker's waits for real time, cut short where the time of a test is its own."""

import pytest

import consumers.committer
import consumers.worker


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that hardly waits for its slots, and not at all for more outcomes to come."""
    monkeypatch.setattr(consumers.worker, "_BUSY_S", 0.00001)
    monkeypatch.setattr(consumers.committer, "LINGER_S", 0.0)
