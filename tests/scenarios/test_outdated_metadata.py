"""What a producer does not know yet refuses no record: the brokers decide which topics and partitions exist."""

from collections.abc import Iterator

import pytest

from kafka_redelivery.transport.client_config import Config, consumer_config, producer_config
from kafka_redelivery.transport.clients.auto_writer import AutoWriter
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.clients.writer import TransactionalWriter
from kafka_redelivery.transport.errors import RefusalCause, WriteAbortedError, WriteRefusedError
from kafka_redelivery.transport.protocols import ProducerRecord, Writer
from tests.scenarios.cluster import Cluster
from tests.scenarios.waiting import until


@pytest.fixture(params=["transacted", "auto"])
def writer(request: pytest.FixtureRequest, cluster: Cluster, unique: str) -> Iterator[Writer]:
    """Yield a writer that has written to both topics of a test."""
    cluster.create(unique, f"{unique}.other")
    kafka: Config = {"bootstrap.servers": cluster.servers, "log_level": 0}
    reader = GroupReader(consumer_config(kafka, group=unique, instance=None))
    opened: Writer
    if request.param == "auto":
        opened = AutoWriter(producer_config(kafka, transactional_id=None), reader)
    else:
        opened = TransactionalWriter(producer_config(kafka, transactional_id=unique), reader)
    opened.write([_record(unique), _record(f"{unique}.other")], {})
    yield opened
    opened.close()
    reader.close()


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
        writer.trial(_record(other))
    cluster.create(other)
    until(lambda: _written(writer, _record(unique), _record(other)), "both are written")
    assert cluster.read(other)
