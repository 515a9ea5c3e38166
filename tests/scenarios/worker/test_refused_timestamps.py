"""A topic that refuses the clock of a process, and a record that is invalid by itself, in one write or one batch."""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest

from kafka_redelivery.transport.client_config import producer_config
from kafka_redelivery.transport.clients import delivery
from kafka_redelivery.transport.clients.delivery import find_refused, produce
from kafka_redelivery.transport.clients.takeover import take_over
from kafka_redelivery.transport.errors import RefusalCause
from kafka_redelivery.transport.protocols import ProducerRecord
from tests.scenarios.cluster import Cluster
from tests.scenarios.running import Group, script
from tests.scenarios.waiting import until

_KEYLESS = 5
"""The number of a record without a key. A compacted topic refuses what its handler emits for it."""

_TIME_LIMIT = {"message.timestamp.after.max.ms": "1000"}
_COMPACTED = {"cleanup.policy": "compact"}


@pytest.mark.parametrize("mode", ["transacted", "auto"])
@pytest.mark.parametrize("together", [True, False], ids=["one topic", "two topics"])
@pytest.mark.parametrize("partitions", [1, 2])
def test_the_clock_decides_about_no_record(group: Group, mode: str, partitions: int, *, together: bool) -> None:
    """What is invalid by itself is dead-lettered, and nothing else, as soon as the time is right or does not matter.

    In mode ``auto`` the records that are tried meanwhile may be written twice.
    """
    policy = {"maximumRedeliveries": 0}
    config = _COMPACTED | _TIME_LIMIT if together else _COMPACTED
    group.prepare(partitions=partitions, output=config, policyEntry={"redeliveryPolicy": policy}, mode=mode)
    limited = group.output if together else f"{group.name}-limited"
    if not together:
        group.cluster.create(limited, config=_TIME_LIMIT)
    records = [script(n, ["ok"], partition=0) for n in range(10)]
    records[_KEYLESS] = replace(records[_KEYLESS], key=None)
    records += [script(n, [f"to {limited}"], partition=partitions - 1) for n in range(10, 20)]
    group.cluster.produce(group.source, records)
    worker = group.worker(program=("-m", "tests.scenarios.clock_ahead"))
    until(lambda: "correct the clock of this machine" in worker.log, "the cause is named")
    if partitions == 2 and not together:
        until(lambda: group.dead().keys() == {_KEYLESS}, "what does not need the topic goes on")
    group.cluster.alter(limited, message_timestamp_after_max_ms="3600000")
    group.settle()
    group.stop()
    written = group.outputs()
    if not together:
        written += type(written)(int(record.value or b"-1") for record in group.cluster.read(limited))
    assert written.keys() == set(range(20)) - {_KEYLESS}
    assert written.total() == 19 or mode == "auto"
    assert group.dead().keys() == {_KEYLESS}
    assert group.dead().total() == 1 or mode == "auto"


@pytest.mark.parametrize("candidates", [[1], [0, 3]])
def test_a_refused_time_is_that_of_all_records_of_the_topic(
    cluster: Cluster, unique: str, candidates: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of those whose batch was not answered yet: their partitions need not find it out one after the other."""
    limited, other = f"{unique}-limited", f"{unique}-other"
    cluster.create(limited, partitions=3, config=_TIME_LIMIT)
    cluster.create(other)
    ahead_ms = round(time.time() * 1000) + 3_600_000
    monkeypatch.setattr(delivery, "produce", partial(produce, timestamp_ms=ahead_ms))
    records = [ProducerRecord(limited, n, b"key", b"value", []) for n in range(3)]
    records.insert(1, ProducerRecord(other, 0, b"key", b"value", []))
    config = producer_config({"bootstrap.servers": cluster.servers}, transactional_id=unique)
    refused = find_refused(take_over(config), records, candidates, 30.0)
    named = {each.index: each.cause for each in refused}
    assert named == (dict.fromkeys((0, 2, 3), RefusalCause.CLOCK) if 0 in candidates else {})
    assert len(refused) == len(named)
