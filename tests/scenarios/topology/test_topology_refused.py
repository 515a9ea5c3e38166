"""A topology that would lose records is refused; each error names its topic and a fix, which apply carries out."""

import json

from kafka_redelivery.topology import exit_codes
from tests.scenarios.cluster import Sent
from tests.scenarios.commands import redelivery
from tests.scenarios.running import Group


def break_it(group: Group) -> dict[str, str]:
    """Break each topic in another way; return by topic the problem that a check must report."""
    tier = group.tier("200ms")
    group.cluster.alter(tier, cleanup_policy="compact")
    group.cluster.alter(group.dead_letters, retention_ms="60000")
    group.cluster.alter(group.ready, message_timestamp_type="LogAppendTime")
    # Created by hand, without first offsets and with fewer partitions than its source.
    created = group.tier("400ms")
    group.cluster.create(created, partitions=1, config={"retention.ms": "-1", "max.message.bytes": "1052684"})
    group.cluster.produce(created, [Sent(b"waiting", partition=0)])
    group.configure(
        policyEntry={"redeliveryPolicy": {"initialRedeliveryDelay": 200, "redeliveryDelay": 400}}, journal=True
    )
    return {
        tier: "is compacted (cleanup.policy=compact)",
        group.dead_letters: "has a limited retention (retention.ms=60000)",
        group.ready: "has message.timestamp.type=LogAppendTime",
        group.journal: "does not exist",
    }


def test_each_problem_is_reported_and_fixed(group: Group) -> None:
    """Check and start report every problem; apply fixes all of them."""
    group.prepare()
    broken = break_it(group)

    checked = redelivery("topology", "check", file=group.file)
    assert checked.code == exit_codes.FAILED
    for topic, problem in broken.items():
        assert f"refuse: {topic}: {problem}" in checked.out
    no_offset = f"group {group.name}.scheduler has no committed offset in partition 0"
    assert f"warn: {group.tier('400ms')}: {no_offset}" in checked.out, "the group has never read it"
    assert f"warn: {group.tier('400ms')}: has 1 partitions, needs 2" in checked.out
    assert f"warn: {group.name}.scheduler: " in checked.out
    assert checked.out.count("fix: ") == len(broken) + 3
    as_json = json.loads(redelivery("topology", "check", "--json", file=group.file).out)
    assert (as_json["ok"], len(as_json["faults"])) == (False, len(broken) + 3)

    for role in ("worker", "scheduler"):
        refused = redelivery(role, file=group.file)
        assert refused.code == exit_codes.TOPOLOGY_REFUSED
        assert "Traceback" not in refused.err
        for topic, problem in broken.items():
            assert f"{topic}: {problem}" in refused.err

    assert redelivery("topology", "apply", file=group.file).code == exit_codes.OK
    assert redelivery("topology", "check", file=group.file).code == exit_codes.OK
    group.send([["ok"]] * 3)
    group.worker()
    group.scheduler()
    group.settle()
    group.stop()


def test_what_apply_cannot_fix_is_refused_with_the_exact_command(group: Group) -> None:
    """Only an operator can decide about an offset beyond the log end."""
    group.prepare()
    group.cluster.commit(group.name, group.ready, 1, 1000)
    applied = redelivery("topology", "apply", file=group.file)
    assert applied.code == exit_codes.TOPOLOGY_REFUSED
    assert f"--group {group.name} --reset-offsets --topic {group.ready}:1 --to-earliest --execute" in applied.err
    assert group.cluster.committed(group.name, group.ready)[group.ready, 1] == (1000, "")
