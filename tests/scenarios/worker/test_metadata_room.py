"""A partition that is paused because its commit metadata has no room loses no record when it goes on."""

import time

from confluent_kafka import Producer

from tests.scenarios.running import Group, exactly, script
from tests.scenarios.waiting import until

RECORDS = 600
GAP = 100
"""Offsets behind each record that hold none. About 240 records then fill the metadata."""

_STANDSTILL_S = 2.0


def test_a_slow_record_among_fast_ones_holds_its_partition_up(group: Group) -> None:
    """Each fetch has more records than there is room for. The others are read again when the slow one is done."""
    slow = {0: group.folder / "first", 300: group.folder / "second"}
    group.prepare(partitions=1, handler={"ordering": "unordered", "slots": 4}, limits={"batch": 500})
    _send_with_gaps(group, {n: f"wait {file}" for n, file in slow.items()})
    group.worker()
    for n, file in slow.items():
        until(lambda: len(group.outputs()) > n + 200, "many records behind the slow one are done")  # noqa: B023 - called at once
        assert _outputs_at_a_standstill(group) < RECORDS - 2, "the partition is not paused"
        file.touch()
    group.settle()
    group.stop()
    assert group.outputs() == exactly(range(RECORDS))
    assert set(group.deliveries.counts().values()) == {1}


def _send_with_gaps(group: Group, slow: dict[int, str]) -> None:
    """Write the records, and behind each one those of a transaction that is aborted in the end."""
    upstream = Producer(
        {
            "bootstrap.servers": group.cluster.servers,
            "transactional.id": group.source,
            "linger.ms": 0,
            # Kafka would end the transaction after a minute, and the loop below may take longer on a busy machine.
            "transaction.timeout.ms": 600_000,
        }
    )
    upstream.init_transactions(45)
    upstream.begin_transaction()
    for n in range(RECORDS):
        group.cluster.produce(group.source, [script(n, [slow.get(n, "ok")], partition=0)])
        for _ in range(GAP):
            upstream.produce(group.source, b"aborted", partition=0)
        assert upstream.flush(45) == 0
    upstream.abort_transaction(45)


def _outputs_at_a_standstill(group: Group) -> int:
    """Wait until there are no new outputs for a while, and return their number."""
    seen = -1
    while (found := len(group.outputs())) != seen:
        seen = found
        time.sleep(_STANDSTILL_S)
    return found
