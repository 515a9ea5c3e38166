"""A job beside which no other process runs: its driver schedules, and it goes on until nothing waits."""

import pytest
from pyspark.sql import SparkSession

from kafka_redelivery.pipeline.errors import StreamUnsettledError
from tests.pipeline.streaming import Gate, audited, prepare, settle
from tests.scenarios.running import Group, exactly

pytestmark = [pytest.mark.spark]


def test_a_run_settles_a_group_without_another_process(spark: SparkSession, group: Group) -> None:
    """Records are redelivered after their delays and have their outcome. What is due after the limit waits.

    Each run has the names of the one before, which has left nothing behind that would stop or delay it. The second is
    cancelled while a handler runs, and the third handles that record again.
    """
    policy = {"redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 1000}}
    limits = {"shutdownTimeout": "5s", "rebalanceTimeout": "5s"}
    prepare(group, pipeline={"scheduler": "driver"}, policyEntry=policy, journal=True, limits=limits)
    group.send([["ok"]] * 20 + [["raise", "ok"]] * 8 + [["raise"]] * 2)

    settle(group, spark, minutes=4)  # each look at what waits is a Spark job: a busy machine takes long for it

    assert group.outputs() == exactly(range(28))
    assert group.dead() == exactly([28, 29])

    gate = Gate(group, "gate")
    group.send([[gate.step]], first=30)

    with pytest.raises(StreamUnsettledError, match="not settled in time: "):
        settle(group, spark, minutes=0.25)

    gate.open()
    slow = {"redeliveryPolicy": {"initialRedeliveryDelay": 600_000}}
    group.configure(policyEntry=slow)
    group.apply()
    group.send([["raise"]] * 4, first=31)

    with pytest.raises(StreamUnsettledError, match=r"not settled within 4m: 4 records wait .* the first is due at"):
        settle(group, spark, minutes=4)

    assert audited(group, spark) == {"acked": 21, "recovered": 8, "dead_lettered": 2, "pending": 4}
