"""A tier that no policy needs any more is reported until its last record has left it."""

import json

from kafka_redelivery.topology import exit_codes
from tests.scenarios.cluster import Sent
from tests.scenarios.commands import topology
from tests.scenarios.running import Group
from tests.scenarios.waiting import until

OTHER_DELAY = {"redeliveryPolicy": {"initialRedeliveryDelay": 300, "redeliveryDelay": 300}}


def reported(group: Group) -> list[tuple[str, str]]:
    """Return severity and topic of each problem with a topic that the check reports; none of them prevents a start."""
    done = topology("check", "--json", file=group.file)
    assert done.code == exit_codes.OK
    scheduler = f"{group.name}.scheduler"  # a group: no scheduler runs
    faults = json.loads(done.out)["faults"]
    return [(fault["severity"], fault["topic"]) for fault in faults if fault["topic"] != scheduler]


def test_a_retired_tier_is_reported_until_it_is_empty(group: Group) -> None:
    """A tier that holds only transaction markers is empty."""
    group.prepare()
    old = group.tier("200ms")
    group.cluster.transact(old, [Sent(b"waiting", partition=0)])
    group.configure(policyEntry=OTHER_DELAY)
    group.apply()
    assert reported(group) == [("warn", old)]

    group.cluster.commit(f"{group.name}.scheduler", old, 0, 1)
    assert group.cluster.ends(old)[old, 0] == 2
    assert reported(group) == []
    assert old in group.cluster.topics()


def test_a_record_in_a_retired_tier_is_still_delivered(group: Group) -> None:
    """A changed policy strands no record."""
    group.prepare()
    group.send([["raise", "ok"]] * 5)
    worker = group.worker()
    until(lambda: len(group.cluster.read(group.tier("200ms"))) == 5, "all records wait")
    worker.stop()
    group.configure(policyEntry=OTHER_DELAY)
    group.apply()
    assert reported(group) == [("warn", group.tier("200ms"))]
    group.worker()
    group.scheduler()
    group.settle()
    group.stop()
    assert sum(group.outputs().values()) == 5
    assert reported(group) == []
