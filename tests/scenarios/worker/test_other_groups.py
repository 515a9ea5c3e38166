"""Another consumer group on the source sees each record once, and the source is never written to."""

from collections import Counter

from confluent_kafka import Consumer

from tests.scenarios.running import Group, exactly, number
from tests.scenarios.waiting import until

_NUMBER = 100


def test_other_groups_never_see_a_retry(group: Group) -> None:
    """Retries and dead letters appear only in topics that bear the group's name and in the dead-letter topics."""
    group.prepare(
        policyEntry={
            "redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 100, "redeliveryDelay": 100}
        }
    )
    others = Consumer(
        {
            "bootstrap.servers": group.cluster.servers,
            "group.id": f"{group.name}.others",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    others.subscribe([group.source])
    group.send(["raise"] if n % 4 == 0 else ["raise", "ok"] for n in range(_NUMBER))
    before = group.cluster.ends(group.source)
    group.scheduler()
    group.worker()
    group.settle()
    group.stop()

    seen: Counter[bytes | None] = Counter()

    def at_rest() -> bool:
        fetched = [message.value() for message in others.consume(1000, 0.5) if not message.error()]
        seen.update(fetched)
        # Nothing comes for a while also between the records of one partition and those of the other.
        return not fetched and seen.total() >= _NUMBER

    until(at_rest, "the other group has read all records")
    others.close()

    assert seen == Counter(record.value for record in group.cluster.read(group.source))
    assert set(seen.values()) == {1}
    assert len(seen) == _NUMBER
    assert group.cluster.ends(group.source) == before
    assert sum(before.values()) == _NUMBER
    assert len(group.cluster.read(group.ready)) == _NUMBER
    assert group.dead() == exactly(range(0, _NUMBER, 4))
    assert {number(record) for record in group.cluster.read(group.tier("100ms"))} == set(range(_NUMBER))
    ours = {topic for topic in group.cluster.topics() if group.name in topic}
    assert ours == {
        group.source,
        group.output,
        group.dead_letters,
        group.ready,
        group.tier("100ms"),
        f"{group.name}.control",
        f"{group.name}.dlq.jobs",
        f"{group.name}.dlq.actions",
        f"{group.name}.dlq.parked",
    }
