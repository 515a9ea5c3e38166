"""With a prefetch of 10, successes wait until there are 5 of them, or for one second."""

from typing import Any

import pytest

from kafka_redelivery.consumers.writes.committer import Committer
from kafka_redelivery.consumers.writes.engine import WriteLimits
from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode, LazyAcknowledgement
from tests.unit.consumers.batches import RAISED, handled, output, shared
from tests.unit.consumers.doubles import Clock, RecordingObserver, ScriptedWriter, StoredOffsets
from tests.unit.consumers.records import record, source


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The committer's clock."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.writes.committer.monotonic_s", clock)
    monkeypatch.setattr("kafka_redelivery.consumers.writes.engine.monotonic_s", clock)
    return clock


def lazy(timeout_ms: int = 1000) -> Committer:
    """A committer in mode ``dups_ok``."""
    rule = LazyAcknowledgement(AcknowledgementMode.DUPS_OK, prefetch=10, timeout_ms=timeout_ms)
    return Committer(shared(), ScriptedWriter([]), StoredOffsets(), RecordingObserver(), WriteLimits(100), lazy=rule)


def test_successes_wait_for_half_of_the_prefetch(clock: Clock) -> None:
    """They wait at most for the time-out, which counts from the last write."""
    committer, assigned = lazy(), source()
    committer.batch.add(handled(assigned, *map(record, range(4))))
    clock.advance(0.9)
    assert not committer.should_write(more_to_come=False)
    assert committer.write_due_in_s(0.2) == pytest.approx(0.1)
    clock.advance(0.1)
    assert committer.should_write(more_to_come=False)
    assert committer.write_due_in_s(0.2) == 0
    committer.begin(())
    committer.end(None)
    committer.batch.add(handled(assigned, *map(record, range(4, 9))))
    assert committer.should_write(more_to_come=True)


def test_the_timeout_begins_again_with_each_write(clock: Clock) -> None:
    """Counted from the start, every success after the first second would be a write of its own."""
    committer, assigned = lazy(), source()
    clock.advance(5)
    committer.batch.add(handled(assigned, record(0)))
    committer.begin(())
    committer.end(None)
    committer.batch.add(handled(assigned, record(1)))
    clock.advance(0.9)
    assert not committer.should_write(more_to_come=False)
    clock.advance(0.1)
    assert committer.should_write(more_to_come=False)


def test_without_a_timeout_they_wait_for_ever(clock: Clock) -> None:
    """Until there are enough of them."""
    committer = lazy(timeout_ms=0)
    committer.batch.add(handled(source(), record(0)))
    clock.advance(10**6)
    assert not committer.should_write(more_to_come=False)
    assert committer.write_due_in_s(0.2) == 0.2


@pytest.mark.parametrize("what", [{"failures": {0: RAISED}}, {"outputs": {0: [output(b"1")]}}])
def test_retry_records_and_outputs_do_not_wait(what: dict[str, Any]) -> None:
    """Nor do the successes in the same batch."""
    committer = lazy()
    committer.batch.add(handled(source(), record(0), **what))
    assert committer.write_due_in_s(0.2) == 0
    assert committer.should_write(more_to_come=False)
