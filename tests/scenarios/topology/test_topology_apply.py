"""`topology apply` creates what is missing, is idempotent, deletes nothing and never changes a source."""

import json

from kafka_redelivery.topology import exit_codes
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from tests.scenarios.commands import redelivery
from tests.scenarios.running import Group
from tests.scenarios.waiting import until

SOURCE = {"retention.ms": "3600000", "cleanup.policy": "compact,delete", "max.message.bytes": "2000000"}


def source_properties(group: Group) -> dict[str, str]:
    """Return the source's properties, as the product's admin client reads them."""
    facts = ClusterAdmin({"bootstrap.servers": group.cluster.servers}).describe([group.source], {})
    return dict(facts.topics[group.source].configs)


def test_apply_makes_everything_once(group: Group) -> None:
    """Apply does what the plan shows; a second apply has nothing to do, and the check finds nothing."""
    group.configure()
    group.cluster.create(group.source, partitions=3, config=SOURCE)
    before = source_properties(group)

    planned = redelivery("topology", "plan", file=group.file)
    assert planned.code == exit_codes.OK
    assert "7 to create, 0 to change, 0 in order, 6 first offsets to commit" in planned.out
    dry = redelivery("topology", "apply", "--dry-run", file=group.file)
    assert "dry run: nothing was changed" in dry.out
    assert ": created" not in dry.out
    assert ": would create, 3 partitions" in dry.out
    assert ": would commit first offsets, " in dry.out
    assert not [name for name in group.cluster.topics() if name.startswith(group.tier(""))]

    applied = redelivery("topology", "apply", file=group.file)
    assert (applied.code, applied.err) == (exit_codes.OK, "")
    for topic in (group.tier("200ms"), group.ready, group.dead_letters):
        assert f"+ {topic}: created, 3 partitions, 1 replica" in applied.out
        assert group.cluster.partitions(topic) == 3
    assert group.cluster.committed(group.name, group.ready) == {(group.ready, n): (0, "") for n in range(3)}
    tier = group.tier("200ms")
    assert group.cluster.committed(f"{group.name}.scheduler", tier) == {(tier, n): (0, "") for n in range(3)}

    assert redelivery("topology", "apply", file=group.file).out == "nothing to do\n"
    checked = redelivery("topology", "check", file=group.file)
    assert (checked.code, checked.err) == (exit_codes.OK, "")
    assert checked.out.startswith(f"warn: {group.name}.scheduler: the group has no members, so no scheduler runs\n")
    assert checked.out.endswith(f"7 topics of group {group.name}: no record would be lost\n")
    assert source_properties(group) == before
    assert group.cluster.committed(group.name, group.source) == {}


def test_apply_grows_with_the_source_and_deletes_nothing(group: Group) -> None:
    """After more partitions and a changed policy, topics grow or are added; none is deleted or made smaller."""
    group.prepare()
    group.cluster.grow(group.source, 4)
    group.cluster.alter(group.dead_letters, max_message_bytes="9000000")
    old = group.tier("200ms")
    group.cluster.commit(group.name, group.ready, 0, 0)
    group.configure(policyEntry={"redeliveryPolicy": {"initialRedeliveryDelay": 300, "redeliveryDelay": 300}})

    done = json.loads(redelivery("topology", "apply", "--json", file=group.file).out)
    assert (done["ok"], done["faults"]) == (True, [])
    assert [(each["change"], each["topic"]) for each in done["changes"] if each["change"] != "commit"] == [
        ("create", group.tier("300ms")),
        ("grow", group.ready),
        ("grow", group.dead_letters),
        ("grow", f"{group.name}.dlq.actions"),
        ("grow", f"{group.name}.dlq.parked"),
    ]
    offsets = {(each["topic"], each["partition"]) for each in done["changes"] if each["change"] == "commit"}
    assert offsets == {(group.tier("300ms"), n) for n in range(4)} | {(group.ready, 2), (group.ready, 3)}

    assert group.cluster.partitions(old) == 2
    assert group.cluster.partitions(group.source) == 4
    assert [group.cluster.partitions(topic) for topic in (group.ready, group.dead_letters)] == [4, 4]
    facts = ClusterAdmin({"bootstrap.servers": group.cluster.servers}).describe([group.dead_letters], {})
    assert facts.topics[group.dead_letters].configs["max.message.bytes"] == "9000000"


def test_apply_leaves_first_offsets_to_running_members(group: Group) -> None:
    """Kafka lets only members commit. What no member reads gets its first offset from the first one that does."""
    group.prepare()
    worker = group.worker(None)
    until(lambda: group.cluster.members(group.name), "the worker has joined")
    group.cluster.grow(group.source, 3)

    applied = redelivery("topology", "apply", file=group.file)
    assert applied.code == exit_codes.OK, applied.err
    assert group.cluster.partitions(group.ready) == 3
    until(lambda: len(group.cluster.committed(group.name, group.ready)) == 3, "the worker commits the first offset")
    assert len(group.cluster.committed(f"{group.name}.scheduler", group.tier("200ms"))) == 3, "it has no members"
    worker.stop()


def test_a_missing_source_is_refused(group: Group) -> None:
    """Plan and apply refuse a missing source and create no topic."""
    group.configure()
    for command in ("plan", "apply"):
        refused = redelivery("topology", command, file=group.file)
        assert refused.code == exit_codes.TOPOLOGY_REFUSED
        assert f"{group.source}: the source topic does not exist" in refused.err
        assert "0 to create" not in refused.out
    assert not [name for name in group.cluster.topics() if group.name in name]


def test_a_warning_does_not_prevent_the_changes(group: Group) -> None:
    """Artemis drops expired records without an expiry address; here they are dead letters, so nothing is lost."""
    setting = {"match": "#", "dead-letter-address": f"{group.name}.dead"}
    group.configure(policyEntry={}, artemis={"address-settings": [setting]})
    group.cluster.create(group.source)
    dry = redelivery("topology", "apply", "--dry-run", file=group.file)
    applied = redelivery("topology", "apply", file=group.file)
    for each in (dry, applied):
        assert (each.code, "that Artemis would drop when they expire" in each.err) == (exit_codes.OK, True), each
    assert group.ready in group.cluster.topics()
