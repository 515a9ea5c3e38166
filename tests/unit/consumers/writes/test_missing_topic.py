"""A missing topic decides about a record only if its handler has named it and the configuration does not list it."""

from dataclasses import replace

from kafka_redelivery.consumers.writes.committer import Committer
from kafka_redelivery.consumers.writes.engine import WriteLimits
from kafka_redelivery.topology.policy.decision import FailureKind
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.errors import RefusalCause, RefusedRecord, WriteRefusedError
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.batches import RAISED, REJECTED, handled, output, shared
from tests.unit.consumers.doubles import RecordingObserver, ScriptedWriter, StoredOffsets, no_stops
from tests.unit.consumers.records import record, source

ORDERS = [Partition("orders", number) for number in range(4)]


def missing(*indexes: int) -> WriteRefusedError:
    """The topics of the records with these indexes do not exist."""
    refused = [RefusedRecord(index, "unknown topic", RefusalCause.MISSING) for index in indexes]
    return WriteRefusedError(refused, others_written=True)


class Parts:
    """A committer that refuses the records of its batch because their topics are missing."""

    def __init__(self, error: WriteRefusedError, *listed: str) -> None:
        self.shared = replace(shared(), is_listed=self._is_listed)
        self.writer = ScriptedWriter([error])
        self.observer = RecordingObserver()
        self.stops = no_stops(self.observer)
        self.asked: list[str] = []
        self.committer = Committer(
            self.shared, self.writer, StoredOffsets(), self.observer, WriteLimits(100), stops=self.stops
        )
        self._listed = listed

    def _is_listed(self, topic: str) -> bool:
        self.asked.append(topic)
        return topic in self._listed

    def write(self) -> None:
        """Write the batch."""
        self.committer.begin(())
        self.committer.end(None)


def test_a_listed_output_halts_its_partition() -> None:
    """No failure is stored, and what the other partitions need is committed."""
    parts = Parts(missing(0), output(b"a").topic)
    parts.committer.batch.add(handled(source(), record(0), outputs={0: [output(b"a")]}))
    parts.committer.batch.add(handled(source(partition=1), record(0, partition=1)))
    parts.write()
    assert parts.stops.unread == {ORDERS[0]}
    assert parts.shared.write_failures == {}
    assert parts.writer.finished == [{ORDERS[1]: Checkpoint(1, "")}]
    [cause] = parts.observer.halt_causes
    assert f"create {output(b'a').topic} yourself if it is an output" in cause


def test_an_output_that_is_not_listed_is_a_failed_delivery() -> None:
    """Nothing halts, and no offset is committed."""
    parts = Parts(missing(0))
    parts.committer.batch.add(handled(source(), record(0), outputs={0: [output(b"a")]}))
    parts.committer.batch.add(handled(source(partition=1), record(0, partition=1)))
    parts.write()
    assert parts.asked == [output(b"a").topic]
    assert not parts.stops.unread
    assert parts.writer.finished == []
    [(where, failure)] = parts.shared.write_failures.items()
    assert (where, failure.kind) == ((ORDERS[0], 0), FailureKind.RAISED)
    assert output(b"a").topic in failure.message


def test_the_topics_of_the_group_halt_their_partitions() -> None:
    """A retry is not dead-lettered for a missing tier, and a dead letter is not lost."""
    parts = Parts(missing(0, 1))
    parts.committer.batch.add(handled(source(), record(0), failures={0: RAISED}))
    parts.committer.batch.add(handled(source(partition=1), record(0, partition=1), failures={0: REJECTED}))
    parts.write()
    assert parts.stops.unread == {*ORDERS[:2]}
    assert parts.shared.write_failures == {}
    assert parts.asked == []
