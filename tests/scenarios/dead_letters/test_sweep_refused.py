"""A dead letter that Kafka refuses to remove or move stays, is logged and tried again; other work continues."""

import os
from dataclasses import replace

from tests.scenarios.letters import emptied, expiring, kept, letter
from tests.scenarios.running import Group
from tests.scenarios.scraping import free_port, value_of
from tests.scenarios.waiting import until


def test_a_refused_removal_is_logged_and_tried_again(group: Group) -> None:
    """Kafka refuses DeleteRecords on a compacted topic: the scheduler continues and removes them once it may."""
    port = free_port()
    group.prepare(policyEntry=expiring(3_600_000), metrics={"port": port, "host": "127.0.0.1"})
    scheduler = group.scheduler()
    until(lambda: group.cluster.members(f"{group.name}.sweeper"), "the sweeper has started")
    group.cluster.alter(group.dead_letters, cleanup_policy="compact")
    group.cluster.produce(group.dead_letters, [letter(group, n, 1000) for n in range(5)])

    refused = "redelivery_sweep_refused_total"
    until(lambda: value_of(port, refused, dead_letter_topic=group.dead_letters) >= 1, "the refusal is counted")
    told = f"expired dead letters of {group.dead_letters}-0 cannot be removed, so they stay"
    until(lambda: told in scheduler.log, "and logged, which comes after that")
    assert kept(group) == [0, 1, 2, 3, 4]
    assert scheduler.running
    group.cluster.alter(group.dead_letters, cleanup_policy="delete")
    until(lambda: emptied(group), "they are removed when that is allowed")
    group.stop()


def test_a_refused_move_keeps_the_dead_letter(group: Group) -> None:
    """A dead letter too large for the expiry topic stays, with those behind it, until it fits; others are moved."""
    port = free_port()
    group.prepare(
        policyEntry=expiring(3_600_000, expiryAddress="EXP.{topic}"), metrics={"port": port, "host": "127.0.0.1"}
    )
    expiry = f"EXP.{group.source}"
    scheduler = group.scheduler()
    until(lambda: group.cluster.members(f"{group.name}.sweeper"), "the sweeper has started")
    group.cluster.alter(expiry, max_message_bytes="2000")
    large = letter(group, 2, 1000)
    letters = [letter(group, 0, 1000), letter(group, 1, 1000), large, letter(group, 3, 1000)]
    letters[2] = replace(large, headers=[*large.headers, ("padding", os.urandom(4000))])
    group.cluster.produce(group.dead_letters, letters)

    until(lambda: value_of(port, "redelivery_sweep_refused_total") >= 1, "the refusal is counted")
    until(lambda: kept(group, expiry) == [0, 1], "those before it are moved")
    assert "cannot be moved, so it stays, and so does every dead letter behind it" in scheduler.log
    until(lambda: kept(group) == [2, 3], "the moved ones are removed")
    group.cluster.alter(expiry, max_message_bytes="1000000")
    until(lambda: emptied(group), "all are removed")
    group.stop()
    assert kept(group, expiry) == [0, 1, 2, 3]
