"""Each record that the configuration drops or that is a duplicate dead letter is counted, logged and journalled."""

import json

from tests.scenarios.cluster import Sent
from tests.scenarios.running import Group, script
from tests.scenarios.scraping import families, free_port, value_of
from tests.scenarios.waiting import until

_ONCE = {"maximumRedeliveries": 1, "initialRedeliveryDelay": 100, "redeliveryDelay": 100}


def test_plugin_and_strategy_drop_what_they_say_and_report_it(group: Group) -> None:
    """Records are dropped by name, by kind of destination and by strategy; the plugin logs every tenth one."""
    port = free_port()
    temporary, strategic, kept = (f"{group.name}.{what}" for what in ("temporary", "strategic", "kept"))
    plugin = {"dropAll": False, "dropOnly": group.source.replace(".", r"\."), "reportInterval": 10}
    group.configure(
        sources=[
            *({"topic": topic, "value": {"format": "json"}} for topic in (group.source, strategic, kept)),
            {"topic": temporary, "destination": f"temp-queue:{temporary}", "value": {"format": "json"}},
        ],
        policyEntry={},
        activemq={
            "plugins": [{"discardingDLQBrokerPlugin": plugin}],
            "policyEntries": [{"queue": strategic, "deadLetterStrategy": {"discarding": {}}}],
        },
        journal=True,
        limits={"batch": 7},
        metrics={"port": port, "host": "127.0.0.1"},
    )
    sources = (group.source, temporary, strategic, kept)
    group.cluster.create(*sources, group.output)
    group.apply()
    worker = group.worker()
    numbers = {group.source: 20, temporary: 5, strategic: 4, kept: 3}
    for topic, number in numbers.items():
        group.cluster.produce(topic, [script(n, ["reject"]) for n in range(number)])
    for topic, number in numbers.items():
        name = "redelivery_dead_letters_total" if topic == kept else "redelivery_discarded_total"
        until(lambda: value_of(port, name, topic=topic, reason="rejected") == number, f"{number} of {topic} ended")  # noqa: B023
    group.stop()

    assert len(group.cluster.read("ActiveMQ.DLQ")) >= numbers[kept]
    assert {letter.header("_AMQ_ORIG_ADDRESS") for letter in group.cluster.read("ActiveMQ.DLQ")} >= {kept}
    assert not {*sources[:3]} & {letter.header("_AMQ_ORIG_ADDRESS") for letter in group.cluster.read("ActiveMQ.DLQ")}
    assert [f"has dropped {total} dead letters" in worker.log for total in (10, 20, 30)] == [True, True, False]
    journal = [json.loads(each.value or b"") for each in group.cluster.read(group.journal)]
    for topic in sources[:3]:
        ranges = [r for each in journal if each["topic"] == topic for r in each.get("discarded", [])]
        assert sum(last - first + 1 for first, last in ranges) == numbers[topic]


def test_a_duplicate_is_not_dead_lettered_twice_and_a_redriven_record_is(group: Group) -> None:
    """A redelivery that was dead-lettered already is dropped; after a redrive it can be dead-lettered again."""
    port = free_port()
    group.prepare(
        partitions=1,
        journal=True,
        policyEntry={"redeliveryPolicy": _ONCE},
        metrics={"port": port, "host": "127.0.0.1"},
    )
    worker = group.worker()
    families(port)
    group.configure(metrics={"port": free_port(), "host": "127.0.0.1"})
    group.scheduler()
    group.send([["raise"]])
    until(group.dead, "it is dead-lettered")
    [copy] = group.cluster.read(group.ready)
    group.cluster.produce(group.ready, [Sent(copy.value, copy.key, copy.headers, copy.partition)])
    until(lambda: value_of(port, "redelivery_discarded_total", reason="duplicate") == 1, "the duplicate is dropped")
    assert group.dead() == {0: 1}
    assert f"{group.source}-0@0 (key 'k0') discarded (duplicate)" in worker.log

    redriven = [
        (name, b"0" if name == "JMSXDeliveryCount" else value)
        for name, value in copy.headers
        if name != "_AMQ_SCHED_DELIVERY"
    ]
    group.cluster.produce(group.ready, [Sent(copy.value, copy.key, redriven, copy.partition)])
    until(lambda: group.dead() == {0: 2}, "it is dead-lettered again")
    group.settle()
    group.stop()
    assert group.deliveries.attempts() == {0: [1, 2, 2, 1, 2]}
    journal = [json.loads(each.value or b"") for each in group.cluster.read(group.journal)]
    assert [each["discarded"] for each in journal if "discarded" in each] == [[[0, 0]]]
