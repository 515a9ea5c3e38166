"""A batch is bounded in bytes, too: what it holds is known, and large records make it full before many do."""

from kafka_redelivery.consumers.flow.session import Sessions
from kafka_redelivery.consumers.writes.batch import Batch
from kafka_redelivery.consumers.writes.committer import Committer
from kafka_redelivery.consumers.writes.engine import WriteLimits
from kafka_redelivery.consumers.writes.outcomes import Outcomes
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from tests.unit.consumers.batches import RAISED, handled, output, shared
from tests.unit.consumers.doubles import RecordingObserver, ScriptedWriter, StoredOffsets
from tests.unit.consumers.records import lineage, record, source


def committer(max_bytes: int) -> Committer:
    """One that takes 100 records a batch."""
    return Committer(shared(), ScriptedWriter(), StoredOffsets(), RecordingObserver(), WriteLimits(100, max_bytes))


def test_records_and_their_outputs_count() -> None:
    """A retry record shares the bytes of its record; an emitted tombstone has none."""
    batch = Batch(shared())
    item = handled(source(), record(0), record(1), failures={1: RAISED}, outputs={0: [output(b"12345"), output(b"")]})
    item.bytes = 300
    batch.add(item)
    assert len(batch.produced) == 3
    assert batch.bytes == 305


def test_a_record_without_an_item_counts() -> None:
    """The broker refused what was produced for it before."""
    batch, assigned = Batch(shared()), source()
    message = record(7, b"x" * 90, key=b"0123456789")
    assigned.progress.track(7)
    batch.add_failure(assigned, message, lineage(7), Failure(FailureKind.UNDELIVERABLE, "WriteRefused", "too large"))
    assert batch.bytes == 100


def test_a_record_that_its_handler_has_not_acknowledged_does_not_count() -> None:
    """It is in a later write. What an item has is divided equally, because its headers are: nothing is negative."""
    batch = Batch(shared())
    messages = [record(0), record(1, headers=[("large", b"x" * 100_000)])]
    item = handled(source(), *messages)
    item.bytes = 100
    item.unacknowledged = [(1, Sessions().open().deliver(item.lane, messages[1]))]
    batch.add(item)
    assert (batch.size, batch.bytes) == (1, 50)


def test_a_part_of_a_write_is_measured() -> None:
    """One record with large headers makes no others wait."""
    messages = [record(0), record(1), record(2, headers=[("large", b"x" * 100_000)])]
    item = handled(source(), *messages)
    item.bytes = 100_148
    first, rest = Outcomes.of(item).split(10, 1000)
    assert (first.offsets(), first.bytes) == ([0, 1], 10)
    assert rest is not None
    assert rest.offsets() == [2]


def test_bytes_make_a_batch_full() -> None:
    """The number of records does not matter. The bytes count until they are committed."""
    writing = committer(max_bytes=1000)
    item = handled(source(), record(0))
    item.bytes = 999
    writing.batch.add(item)
    assert not writing.full
    other = handled(source(partition=1), record(0, partition=1))
    other.bytes = 1
    writing.batch.add(other)
    assert writing.full
    assert writing.bytes == 1000
    writing.begin([])
    assert not writing.full
    assert writing.bytes == 1000  # until it is written
    writing.end(None)
    assert writing.bytes == 0
