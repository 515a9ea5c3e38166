"""Makes tests independent of the real clock: waits are short, and a busy machine changes no outcome."""

import pytest

from kafka_redelivery.consumers.handlers import processor
from kafka_redelivery.consumers.writes import committer, engine
from kafka_redelivery.topology.backoff import Backoff


@pytest.fixture
def one_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slot returns a work item after its slice of time, which a busy machine can take up before the second record."""
    monkeypatch.setattr(processor, "SLICE_S", 600.0)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch, one_slice: None) -> None:  # noqa: ARG001 - what a seed leads to needs it
    """A worker that waits neither for more outcomes before a write nor after an aborted one."""
    monkeypatch.setattr(committer, "LINGER_S", 0.0)
    monkeypatch.setattr(engine, "_BACKOFF", Backoff(0.0, 0.0))
