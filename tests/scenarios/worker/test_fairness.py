"""Backlogged partitions, redeliveries and new records share the slots: none of them keeps the others waiting."""

import time

from kafka_redelivery.topology.policy.decision import Retry
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.wire.headers import ready_headers, retry_headers
from tests.scenarios.cluster import Sent
from tests.scenarios.running import Group, script
from tests.scenarios.waiting import until


def test_a_backlog_of_one_partition_does_not_delay_the_others(group: Group) -> None:
    """With one slot for four partitions, a few records of three of them overtake the backlog of the fourth."""
    group.prepare(partitions=4, limits={"bufferRecords": 4000})
    backlog = 8000
    group.cluster.produce(group.source, [script(n, ["sleep 0.001"], partition=0) for n in range(backlog)])
    group.worker()
    until(lambda: len(group.deliveries.began()) > 500, "the backlog is being handled")

    sent: dict[int, float] = {}
    for n in range(backlog, backlog + 30):
        group.cluster.produce(group.source, [script(n, ["quiet"], partition=1 + n % 3)])
        sent[n] = time.time()  # now Kafka has it; how long that took is not up to the group
    until(lambda: sent.keys() <= group.deliveries.counts().keys(), "the records of the other partitions are handled")

    began = group.deliveries.began()
    assert len(began) < backlog, "the backlog was finished too early to prove anything"
    waited = {
        call.n: sum(sent[call.n] <= other.at_s < call.at_s for other in began if other.partition == 0)
        for call in began
        if call.n in sent
    }
    assert max(waited.values()) < 1000, "too many backlog records began while a record of another partition waited"
    group.stop()


def test_redeliveries_and_fresh_records_share_the_slots(group: Group) -> None:
    """Where both have a backlog, three of four work items are redeliveries, and neither is starved."""
    group.prepare(partitions=2)
    number = 3000
    group.send([["sleep 0.001"]] * number)
    group.cluster.produce(group.ready, [_redelivery(group, n) for n in range(number, 2 * number)])
    group.worker()
    until(lambda: len(group.deliveries.began()) > number, "a part of both is handled")
    group.stop()

    # The first call at which records of both kinds had been fetched.
    attempts = [call.attempt for call in group.deliveries.began()][500:number]
    redelivered = sum(attempt == 2 for attempt in attempts) / len(attempts)
    assert 0.6 < redelivered < 0.85


def _redelivery(group: Group, n: int) -> Sent:
    """Make a record that failed once and has been released to the ready topic."""
    now_ms = round(time.time() * 1000)
    origin = Lineage(group.source, n % 2, n, now_ms - 1000, 1)
    record = script(n, ["raise", "sleep 0.001"], partition=n % 2)
    headers = ready_headers(retry_headers(origin, group.name, (), Retry(200, now_ms)))
    return Sent(record.value, record.key, headers, record.partition)
