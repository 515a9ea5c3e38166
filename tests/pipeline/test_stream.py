"""A streaming query handles sources and ready topics under the group's policy."""

from collections import Counter

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.streaming import prepare, run
from tests.scenarios.running import Group, exactly, number

pytestmark = pytest.mark.spark


def test_each_record_has_one_outcome(spark: SparkSession, group: Group) -> None:
    """Successes are emitted, failures wait in their tier or are dead letters, each once; a second run finds nothing."""
    prepare(group)
    group.send([["ok"]] * 50 + [["raise", "ok"]] * 5 + [["reject"]] * 3 + [["kill"]] * 2)

    run(group, spark)

    assert group.outputs() == exactly(range(50))
    assert group.dead() == exactly(range(55, 58))
    waiting = group.cluster.read(group.tier("200ms"))
    assert len(waiting) == 7
    assert Counter(record.header("JMSXDeliveryCount") for record in waiting) == {"1": 7}

    run(group, spark)

    assert group.outputs() == exactly(range(50))


def test_a_vectorised_handler_fails_single_rows(spark: SparkSession, group: Group) -> None:
    """Of rows handled together only the bad ones fail: those named, those that raise, kill, or send to nowhere."""
    prepare(
        group,
        handler={"callable": "tests.pipeline.handlers:vectorized", "vectorized": True},
        sources=[{"topic": group.source}],
        policyEntry={"redeliveryPolicy": {"initialRedeliveryDelay": 0, "redeliveryDelay": 300_000}},
    )
    group.send([["ok"]] * 300 + [["raise", "ok"], ["reject"], ["throw"], ["kill", "ok"], ["to"]])

    run(group, spark)

    assert group.outputs() == exactly(range(300))
    assert group.dead() == exactly([301])

    run(group, spark)  # the ready topic

    assert group.outputs() == exactly([*range(301), 303])
    assert sorted(number(record) for record in group.cluster.read(group.tier("5m"))) == [302, 304]
