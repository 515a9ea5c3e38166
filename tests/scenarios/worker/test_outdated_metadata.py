"""What a producer does not know yet refuses no record: the brokers decide which topics and partitions exist."""

import pytest

from kafka_redelivery.transport.errors import RefusalCause, WriteAbortedError, WriteRefusedError
from kafka_redelivery.transport.protocols import ProducerRecord, Writer
from tests.scenarios.cluster import Cluster
from tests.scenarios.waiting import until


@pytest.fixture
def writer(writer: Writer, cluster: Cluster, unique: str) -> Writer:
    """A writer that has written to both topics of a test."""
    cluster.create(f"{unique}.other")
    writer.write([_record(unique), _record(f"{unique}.other")], {})
    return writer


def _record(topic: str, partition: int = 0) -> ProducerRecord:
    return ProducerRecord(topic, partition, b"key", b"value", [])


def _written(writer: Writer, *records: ProducerRecord) -> bool:
    """Write, and return whether it was committed. A refusal is an error of the test."""
    try:
        writer.write(records, {})
    except WriteAbortedError:
        return False
    return True


def test_a_partition_that_was_added(cluster: Cluster, unique: str, writer: Writer) -> None:
    """It is written within seconds, although the client asks for new partitions once in five minutes."""
    cluster.grow(unique, 3)
    until(lambda: _written(writer, _record(unique, 2)), "the new partition is written")
    with pytest.raises(WriteRefusedError) as refused:
        until(lambda: _written(writer, _record(unique, 7)), "its record is refused")
    assert [each.cause for each in refused.value.refused] == [RefusalCause.MISSING]


def test_a_topic_that_is_deleted_and_created_again(cluster: Cluster, unique: str, writer: Writer) -> None:
    """Its records alone are refused, and only as long as it is missing."""
    other = f"{unique}.other"
    cluster.delete(other)
    with pytest.raises(WriteRefusedError) as refused:
        until(lambda: _written(writer, _record(unique), _record(other)), "the record is refused")
    assert [(each.index, each.cause) for each in refused.value.refused] == [(1, RefusalCause.MISSING)]
    with pytest.raises(WriteRefusedError):
        writer.trial(_record(other), 1.0)
    cluster.create(other)
    until(lambda: _written(writer, _record(unique), _record(other)), "both are written")
    # Kafka answers a commit before it writes the markers that let readers see the record.
    until(lambda: cluster.read(other), "the record can be read")
