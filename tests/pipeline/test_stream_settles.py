"""A job beside which no other process runs: its driver schedules, and it goes on until nothing waits."""

import pytest
from pyspark.sql import SparkSession

from kafka_redelivery.pipeline.errors import StreamUnsettledError
from tests.pipeline.streaming import audited, prepare, settle
from tests.scenarios.running import Group, exactly

pytestmark = [pytest.mark.spark]


def test_a_run_settles_a_group_without_another_process(spark: SparkSession, group: Group) -> None:
    """Records are redelivered after their delays and have their outcome. What is due after the limit waits.

    The second run has the names of the first, which has left nothing behind that would stop or delay it.
    """
    delays = {"initialRedeliveryDelay": 1000, "useExponentialBackOff": True, "backOffMultiplier": 2}
    policy = {"redeliveryPolicy": {"maximumRedeliveries": 2, **delays}}
    prepare(group, pipeline={"scheduler": "driver"}, policyEntry=policy, journal=True)
    group.send([["ok"]] * 20 + [["raise", "ok"]] * 5 + [["raise", "raise", "ok"]] * 3 + [["raise"]] * 2)

    settle(group, spark, minutes=4)  # each look at what waits is a Spark job: a busy machine takes long for it

    assert group.outputs() == exactly(range(28))
    assert group.dead() == exactly([28, 29])

    slow = {"redeliveryPolicy": {"initialRedeliveryDelay": 300_000}}
    group.configure(policyEntry=slow)
    group.apply()
    group.send([["raise"]] * 4, first=30)

    with pytest.raises(StreamUnsettledError, match=r"not settled within 30s: 4 records wait .* the first is due at"):
        settle(group, spark, minutes=0.5)

    assert audited(group, spark) == {"acked": 20, "recovered": 8, "dead_lettered": 2, "pending": 4}
