"""A partition without a leader halts only what needs that partition. It decides about no record."""

import pytest

from kafka_redelivery.consumers.telemetry.observers import HaltCause, HaltLabel
from kafka_redelivery.consumers.writes.committer import Committer
from kafka_redelivery.consumers.writes.engine import Refused, WriteLimits
from kafka_redelivery.transport.errors import RefusalCause, RefusedRecord, WriteRefusedError
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.batches import REJECTED, handled, shared
from tests.unit.consumers.doubles import Clock, RecordingObserver, ScriptedWriter, StoredOffsets, no_stops
from tests.unit.consumers.records import record, source

ORDERS = [Partition("orders", number) for number in range(3)]
DEAD = "DLQ.orders"


def offline(*indexes: int) -> WriteRefusedError:
    """The partitions of the records with these indexes have no leader."""
    return WriteRefusedError([RefusedRecord(index, "no leader", RefusalCause.OFFLINE) for index in indexes])


def test_each_is_tried_again_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition that has a leader again does not wait for others of the same topic."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.flow.stops.monotonic_s", clock)
    shares, observer = shared(), RecordingObserver()
    stops = no_stops(observer)
    writer = ScriptedWriter([offline(0, 1), offline(0)])
    committer = Committer(shares, writer, StoredOffsets(), observer, WriteLimits(100), stops=stops)
    for number in range(3):
        failures = {0: REJECTED} if number < 2 else {}
        committer.batch.add(handled(source(partition=number), record(0, partition=number), failures=failures))
    committer.begin(())
    assert isinstance(committer.end(None), Refused)
    assert stops.unread == {*ORDERS[:2]}
    assert shares.write_failures == {}
    assert all("start a broker that has a replica" in cause for cause in observer.halt_causes)
    stops.report()
    assert observer.halted_numbers == {HaltLabel(DEAD, HaltCause.OFFLINE): 2}
    clock.advance(1)
    for paused in ({*ORDERS[:2]}, {ORDERS[0]}):  # the first trial is refused, the second one is not
        assert committer.try_halted(write_waits=False)
        committer.end(None)
        assert stops.unread == paused
