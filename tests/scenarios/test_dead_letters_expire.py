"""Expired dead letters are removed as soon as no earlier record of their partition must be kept."""

import time

from tests.scenarios.letters import emptied, expiring, kept, letter, now_ms
from tests.scenarios.running import Group
from tests.scenarios.scraping import free_port, value_of
from tests.scenarios.waiting import until

_LIFE_MS = 4000


def test_expiration_empties_a_dead_letter_topic_on_time(group: Group) -> None:
    """No dead letter is removed before it expires; a few seconds after the last one expires, the topic is empty."""
    group.prepare(policyEntry=expiring(_LIFE_MS))
    group.cluster.alter(group.dead_letters, retention_ms="-1")  # Kafka's own retention must not remove them.
    group.scheduler()
    group.worker()
    with group.cluster.follow(group.dead_letters) as tail:
        group.send([["raise"]] * 40)
        tail.reach(40)
    last_ms = 0
    while not emptied(group):
        asked_ms = now_ms()
        starts = group.cluster.starts(group.dead_letters)
        for record in tail.records:
            expires_ms = int(record.header("JMSExpiration") or 0)
            last_ms = max(last_ms, expires_ms)
            gone = record.offset < starts[record.topic, record.partition]
            assert not gone or expires_ms <= now_ms(), f"{record} was removed before it expired"
        assert asked_ms < last_ms + 20_000, f"not removed: {starts}"
        time.sleep(0.1)
    group.stop()

    assert len(tail.records) == 40
    assert now_ms() >= last_ms
    assert "cannot" not in group.processes[0].log


def test_one_that_is_kept_keeps_those_behind_it(group: Group) -> None:
    """An unexpired dead letter keeps those behind it until it expires; one that never expires keeps them for good."""
    port = free_port()
    group.prepare(3, policyEntry=expiring(3_600_000), metrics={"port": port, "host": "127.0.0.1"})
    soon_ms = now_ms() + 8000
    group.cluster.produce(
        group.dead_letters,
        [
            letter(group, 0, soon_ms),
            letter(group, 1, 1000),
            letter(group, 2, 1000),
            letter(group, 10, 1000, partition=1),
            letter(group, 11, None, partition=1),
            letter(group, 12, 1000, partition=1),
            letter(group, 20, 1000, partition=2),
            letter(group, 21, 1000, partition=2, of="another"),
            letter(group, 22, 1000, partition=2),
        ],
    )
    group.scheduler()
    resting = "redelivery_sweep_resting_partitions"
    until(
        lambda: value_of(port, resting, dead_letter_topic=group.dead_letters) == 3, "no partition can be swept further"
    )

    if now_ms() < soon_ms:
        assert kept(group) == [0, 1, 2, 11, 12, 21, 22]
        assert value_of(port, resting, reason="not_yet") == 1
    assert value_of(port, resting, reason="never") == 1
    assert value_of(port, resting, reason="others") == 1
    until(lambda: kept(group) == [11, 12, 21, 22], "the expired head and the records behind it are removed")
    assert now_ms() >= soon_ms
    until(lambda: value_of(port, "redelivery_expired_removed_total") == 5, "the removals are counted")
    group.stop()
    assert kept(group) == [11, 12, 21, 22]


def test_several_schedulers_share_the_work(group: Group) -> None:
    """Each scheduler removes in its own partitions; when one is killed, another takes them over."""
    group.prepare(4, policyEntry=expiring(3_600_000), kafka={"session.timeout.ms": 6000, "heartbeat.interval.ms": 500})
    one, _two = group.scheduler("one"), group.scheduler("two")

    def shared() -> bool:
        members = group.cluster.members(f"{group.name}.sweeper")
        return sorted(len(partitions) for partitions in members.values()) == [2, 2]

    until(shared, "each has two partitions")
    group.cluster.produce(group.dead_letters, [letter(group, n, 1000, partition=n % 4) for n in range(40)])
    until(lambda: emptied(group), "all are removed")
    one.kill()
    group.cluster.produce(group.dead_letters, [letter(group, n, 1000, partition=n % 4) for n in range(40)])
    until(lambda: emptied(group), "all are removed")
