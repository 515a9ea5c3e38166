"""An index in a folder of a test, written without Kafka."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from kafka_redelivery.dead_letters.index.files import VERSION, Basis, IndexFolder, Manifest, Slot
from kafka_redelivery.dead_letters.index.rows import RowMaker, table_of
from kafka_redelivery.dead_letters.index.store import Store
from kafka_redelivery.transport.assigned_reader import ReadBatch
from kafka_redelivery.transport.protocols import Message
from tests.unit.consumers.records import Fetched

TOPIC = "DLQ.orders"
BASIS = Basis(version=VERSION, cluster="c", group="billing", values=True, class_only=False)
SLOTS = tuple(
    Slot(number=number, topic=TOPIC, partition=number, topic_id="t", start=0, position=0) for number in range(2)
)


def batch_of(messages: Sequence[Fetched]) -> ReadBatch:
    """Return what a reader would: records of one class, at least one."""
    places = [(each.source, each.number) for each in messages]
    return ReadBatch(cast("list[Message]", list(messages)), places, [each.place for each in messages], {})


def rows_of(basis: Basis = BASIS) -> RowMaker:
    """Return what makes rows for the partitions of some records."""
    slots = {(each.topic, each.partition): each.number for each in SLOTS}
    return RowMaker(slots, basis)


def published(folder: Path, messages: Sequence[Fetched], basis: Basis = BASIS) -> IndexFolder:
    """Publish an index of some letters, of which no job has any."""
    found = IndexFolder(folder)
    store = Store(found)
    file = store.write("letters", [table_of(rows_of(basis).columns(batch_of(messages)))])
    store.close()
    found.publish(Manifest(basis=basis, next_slot=len(SLOTS), slots=SLOTS, letter_files=(file,)))
    return found
