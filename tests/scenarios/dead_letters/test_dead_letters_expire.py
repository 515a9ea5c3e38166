"""Expired dead letters are removed as soon as no earlier record of their partition must be kept."""

import time

from tests.scenarios.cluster import Seen
from tests.scenarios.letters import emptied, expiring, kept, letter, now_ms
from tests.scenarios.running import SHORT_SESSION, Group
from tests.scenarios.scraping import free_port, value_of
from tests.scenarios.waiting import LONG_S, until

_LIFE_MS = 10_000


def test_expiration_empties_a_dead_letter_topic_on_time(group: Group) -> None:
    """No dead letter is removed before it expires; after the last one expires, the topic becomes empty."""
    group.prepare(policyEntry=expiring(_LIFE_MS))
    group.cluster.alter(group.dead_letters, retention_ms="-1")  # Kafka's own retention must not remove them.
    group.worker()
    with group.cluster.follow(group.dead_letters) as tail:
        group.send([["raise"]] * 40)
        tail.reach(40)
    scheduler = group.scheduler()  # only now, so that it removes none that the test has not read
    until(lambda: " reads " in scheduler.log, "the scheduler runs")
    expirations = {(each.topic, each.partition, each.offset): _expires_ms(each) for each in tail.records}
    deadline_ms = max(now_ms(), *expirations.values()) + LONG_S * 1000
    while not emptied(group):
        starts = group.cluster.starts(group.dead_letters)
        read_ms = now_ms()
        for (topic, partition, offset), expires_ms in expirations.items():
            removed = offset < starts[topic, partition]
            assert not removed or expires_ms <= read_ms, f"{topic}-{partition}@{offset} was removed before it expired"
        assert read_ms < deadline_ms, f"not removed: {starts}"
        time.sleep(0.1)
    group.stop()

    assert len(expirations) == 40
    assert now_ms() >= max(expirations.values())
    assert "cannot" not in scheduler.log


def _expires_ms(record: Seen) -> int:
    return int(record.header("JMSExpiration") or 0)


def test_one_that_is_kept_keeps_those_behind_it(group: Group) -> None:
    """An unexpired dead letter keeps those behind it; one that never expires keeps them for good."""
    port = free_port()
    group.prepare(3, policyEntry=expiring(3_600_000), metrics={"port": port, "host": "127.0.0.1"})
    later_ms = now_ms() + 3_600_000
    group.cluster.produce(
        group.dead_letters,
        [
            letter(group, 0, later_ms),
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
    reasons = ("not_yet", "never", "others")
    until(lambda: [value_of(port, resting, reason=reason) for reason in reasons] == [1, 1, 1], "each partition rests")
    assert kept(group) == [0, 1, 2, 11, 12, 21, 22]
    until(lambda: value_of(port, "redelivery_expired_removed_total") == 2, "the removals are counted")
    group.stop()
    assert kept(group) == [0, 1, 2, 11, 12, 21, 22]


def test_one_that_expires_no_longer_keeps_those_behind_it(group: Group) -> None:
    """They are removed with it, and not before it expires."""
    group.prepare(1, policyEntry=expiring(3_600_000))
    soon_ms = now_ms() + 10_000
    letters = [letter(group, 0, soon_ms), letter(group, 1, 1000), letter(group, 2, 1000)]
    group.cluster.produce(group.dead_letters, letters)
    group.scheduler()
    until(lambda: kept(group) != [0, 1, 2], "something is removed")
    assert now_ms() >= soon_ms
    until(lambda: emptied(group), "the expired head and the records behind it are removed")


def test_several_schedulers_share_the_work(group: Group) -> None:
    """Each scheduler removes in its own partitions; when one is killed, another takes them over."""
    group.prepare(4, policyEntry=expiring(3_600_000), kafka=SHORT_SESSION)
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
