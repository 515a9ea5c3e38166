"""The journal records the outcome of every source record exactly once, also across kills."""

import json
from collections import Counter

import pytest

from tests.scenarios.running import Group

_NUMBER = 600


@pytest.mark.crash
def test_the_journal_covers_every_offset_once(group: Group) -> None:
    """Acked, recovered and dead-lettered ranges neither overlap nor leave a gap, and agree with the topics."""
    group.prepare(
        journal=True,
        handler={"slots": 2},
        limits={"batch": 30, "bufferRecords": 300},
        policyEntry={
            "redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 200, "redeliveryDelay": 200}
        },
    )
    scripts = {0: ["raise"], 1: ["reject"], 2: ["raise", "ok"], 3: ["raise", "quiet"]}
    scheduler, worker = group.scheduler(), group.worker()
    group.send(scripts.get(n % 10, ["ok"]) for n in range(_NUMBER))
    with group.cluster.follow(group.journal) as tail:
        for entries in (2, 8):
            tail.reach(entries)
            worker.kill()
            scheduler.kill()
            scheduler, worker = group.scheduler(), group.worker()
    group.settle()
    group.stop()

    covered: Counter[tuple[int, int]] = Counter()
    outcomes: Counter[str] = Counter()
    for record in group.cluster.read(group.journal):
        entry = json.loads(record.value or b"")
        assert (entry["v"], entry["group"], entry["topic"]) == (1, group.name, group.source)
        assert record.key == f"{group.source}-{entry['partition']}".encode()
        assert all(late >= 0 for late in entry.get("lateness_ms", []))
        for outcome in ("acked", "recovered", "retried", "dead_lettered", "discarded"):
            for first, last in entry.get(outcome, []):
                outcomes[outcome] += last - first + 1
                if outcome != "retried":
                    covered.update((entry["partition"], offset) for offset in range(first, last + 1))
    every = {(record.partition, record.offset) for record in group.cluster.read(group.source)}
    assert covered == Counter(dict.fromkeys(every, 1))
    tenth = _NUMBER // 10
    assert outcomes == {
        "acked": 6 * tenth,
        "recovered": 2 * tenth,
        "retried": 3 * tenth,
        "dead_lettered": 2 * tenth,
    }
