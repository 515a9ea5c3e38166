"""A listed output must exist at the start; a topic that is not listed and does not exist fails its record alone."""

import json

from kafka_redelivery.topology import exit_codes
from tests.scenarios.commands import redelivery
from tests.scenarios.running import Group, exactly, number


def test_nothing_handles_records_without_a_listed_output(group: Group) -> None:
    """Commands and worker exit with 5 and name the fix; apply creates its own topics, never the output."""
    totals = f"{group.name}.totals"
    group.configure(outputs=[{"topic": group.output}, {"topic": totals}])
    group.cluster.create(group.source, group.output, partitions=2)
    problem = f"{totals}: the output topic does not exist"
    for command in (("plan",), ("apply", "--dry-run"), ("apply",), ("check",)):
        done = redelivery("topology", *command, file=group.file)
        shown = done.out + done.err
        assert (command, done.code) == (command, exit_codes.TOPOLOGY_REFUSED)
        assert f"refuse: {problem}" in shown
        assert f"fix: create {totals} " in shown
        assert f"{group.output}: " not in shown
    for command in (("plan",), ("apply",), ("check",)):
        done = redelivery("topology", *command, "--json", file=group.file)
        found = json.loads(done.out)
        refused = [fault["topic"] for fault in found["faults"] if fault["severity"] == "refuse"]
        assert (done.code, found["ok"], refused) == (exit_codes.TOPOLOGY_REFUSED, False, [totals])
    assert group.cluster.partitions(group.ready) == 2

    started = redelivery("worker", file=group.file)
    assert (started.code, "Traceback" in started.err) == (exit_codes.TOPOLOGY_REFUSED, False)
    assert problem in started.err
    assert totals not in group.cluster.topics()
    group.scheduler().stop()  # it emits nothing

    group.cluster.create(totals)
    assert redelivery("topology", "check", file=group.file).code == exit_codes.OK
    group.send([["ok"]] * 3)
    group.worker()
    group.settle()
    group.stop()


def test_a_topic_that_a_handler_may_not_emit_to_fails_its_record_alone(group: Group) -> None:
    """One that does not exist, one of Kafka, and those of the group, into which nothing is written."""
    group.prepare(policyEntry={"redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 200}})
    tier = group.tier("200ms")
    refused = [f"{group.name}.typo", "__consumer_offsets", tier, group.tier("7s"), group.ready, group.dead_letters]
    group.send([*[["ok"]] * 20, *[[f"to {topic}"] for topic in refused], *[["ok"]] * 20])
    group.scheduler()
    group.worker()
    group.settle()
    group.stop()
    assert group.outputs() == exactly([*range(20), *range(26, 46)])
    letters = group.cluster.read(group.dead_letters)
    causes = {number(each): json.loads(each.header("dlqDeliveryFailureCause") or "") for each in letters}
    assert set(causes) == set(range(20, 26))
    assert len(letters) == len(refused)
    for n, topic in enumerate(refused, start=20):
        assert topic in causes[n]["message"]
        assert causes[n]["reason"] == "redeliveries_exceeded"
    assert {number(each) for each in group.cluster.read(tier, group.ready)} == set(causes)
