"""The broker decides how large a record may be, and a batch that it refuses does not hold up its transaction."""

import os
import time

import pytest

from kafka_redelivery.transport.client_config import producer_config
from kafka_redelivery.transport.clients.delivery import find_refused
from kafka_redelivery.transport.clients.takeover import take_over
from kafka_redelivery.transport.errors import WriteAbortedError, WriteRefusedError
from kafka_redelivery.transport.protocols import ProducerRecord, ReleaseTime, Writer
from tests.scenarios.cluster import Cluster
from tests.scenarios.running import Group, exactly, number, script
from tests.scenarios.waiting import until

_LARGE = 1_020_000
"""Above the limit of librdkafka (1,000,000), below the default limit of a topic (1,048,588)."""

_TOO_LARGE = 1_500_000
_SMALL = 50_000
_FAST_S = 29.0
"""Less than the 30 s that a commit waits for answers; such a write takes about two seconds."""


@pytest.mark.parametrize("mode", ["transacted", "auto"])
def test_a_large_record_is_retried_and_dead_lettered(group: Group, mode: str) -> None:
    """It goes through its tier and its ready topic, and to the dead-letter topic, like any other record."""
    group.prepare(1, mode=mode)
    group.cluster.produce(
        group.source,
        [
            script(0, ["raise", "ok"], padding=_LARGE),
            script(1, ["raise", "reject"], padding=_LARGE),
            *(script(n, ["ok"]) for n in range(2, 10)),
        ],
    )
    group.scheduler()
    group.worker()
    group.settle()
    group.stop()

    assert group.outputs() == exactly([0, *range(2, 10)])
    (letter,) = group.cluster.read(group.dead_letters)
    assert number(letter) == 1
    assert letter.header("JMSXDeliveryCount") == "2"
    assert len(letter.value or b"") > _LARGE


@pytest.mark.parametrize("ahead_s", [None, 0.5])
def test_a_refused_batch_with_others_in_flight(
    unique: str, cluster: Cluster, writer: Writer, ahead_s: float | None
) -> None:
    """The write ends soon and names the record that is too large; without it the write succeeds."""
    records = [ProducerRecord(unique, 0, b"key", os.urandom(_SMALL), []) for _ in range(70)]
    too_large = ProducerRecord(unique, 0, b"key", os.urandom(_TOO_LARGE), [])

    started_s = time.monotonic()
    release = None if ahead_s is None else ReleaseTime(round((time.time() + ahead_s) * 1000), started_s + ahead_s)
    with pytest.raises(WriteRefusedError) as refused:
        writer.write([*records[:10], too_large, *records[10:]], {}, release)
    assert time.monotonic() - started_s < _FAST_S
    assert [each.index for each in refused.value.refused] == [10]

    until(lambda: _writes(writer, records), "the others are written")
    assert {record.value for record in cluster.read_written(unique)} >= {record.value for record in records}


def test_a_search_ends_in_time_with_what_it_has_found(cluster: Cluster, unique: str) -> None:
    """Each refused record costs a transaction. The next write finds the others."""
    cluster.create(unique, config={"max.message.bytes": "1000"})
    records = [ProducerRecord(unique, 0, None, os.urandom(2000), [])] * 10_000  # bytes that cannot be compressed
    config = producer_config({"bootstrap.servers": cluster.servers}, transactional_id=unique)
    refused = find_refused(take_over(config), records, range(len(records)), 5.0)
    assert [each.index for each in refused] == list(range(len(refused)))
    assert 0 < len(refused) < len(records)


def _writes(writer: Writer, records: list[ProducerRecord]) -> bool:
    """Write as a worker does, which repeats an aborted write.

    While a broker verifies a transaction, it may refuse batches in flight: OUT_OF_ORDER_SEQUENCE_NUMBER (KAFKA-14920).
    """
    try:
        writer.write(records, {})
    except WriteAbortedError:
        return False
    return True
