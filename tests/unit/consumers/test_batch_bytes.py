"""A batch is bounded in bytes, too: what it holds is known, and large records make it full before many do."""

from consumers.batch import Batch
from consumers.committer import Committer
from tests.unit.consumers.batches import RAISED, handled, output, shared
from tests.unit.consumers.doubles import Noting, ScriptedWriter
from tests.unit.consumers.records import lineage, record, source
from topology.decision import Failure, FailureKind


def committer(most_bytes: int) -> Committer:
    """One that takes 100 records a batch."""
    return Committer(shared(), ScriptedWriter(), Noting(), 100, most_bytes)


def test_records_and_their_outputs_count() -> None:
    """A copy shares the bytes of its record, so it counts nothing of its own; a tombstone emitted has none."""
    batch = Batch(shared())
    unit = handled(source(), record(0), record(1), failures={1: RAISED}, outputs={0: [output(b"12345"), output(b"")]})
    unit.bytes = 300
    batch.add(unit)
    assert len(batch.copies) == 3
    assert batch.bytes == 305


def test_a_record_outside_any_unit_counts() -> None:
    """One whose copy was refused before."""
    batch, assigned = Batch(shared()), source()
    message = record(7, b"x" * 90, key=b"0123456789")
    assigned.progress.see(7)
    batch.settle(assigned, message, lineage(7), Failure(FailureKind.UNDELIVERABLE, "WriteRefused", "too large"))
    assert batch.bytes == 100


def test_bytes_make_a_batch_full() -> None:
    """However few records they are; after the write there is room again."""
    writing = committer(most_bytes=1000)
    unit = handled(source(), record(0))
    unit.bytes = 999
    writing.batch.add(unit)
    assert not writing.full
    other = handled(source(partition=1), record(0, partition=1))
    other.bytes = 1
    writing.batch.add(other)
    assert writing.full
    assert writing.bytes == 1000
    writing.begin([])
    assert not writing.full
    assert writing.bytes == 1000  # until it is written
    writing.settle(None)
    assert writing.bytes == 0
