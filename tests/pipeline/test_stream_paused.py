"""A query waits as a whole after its micro-batch while an operator says so, and goes on; nothing is lost or doubled."""

import time

import pytest
from pyspark.sql import SparkSession

from kafka_redelivery.consumers.operations.outages import close_outage, open_outage
from kafka_redelivery.consumers.operations.pausing import pause, resume
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.wire.pauses import PauseScope, PauseTarget
from tests.pipeline.streaming import prepare, running
from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]


def test_a_paused_source_or_a_dependency_that_is_away_stops_the_query(group: Group, spark: SparkSession) -> None:
    """Records that arrive meanwhile are handled afterwards."""
    source = {"topic": group.source, "value": {"format": "json"}, "dependencies": ["bank"]}
    prepare(group, sources=[source], dependencies={"bank": {}})
    settings = load_settings(group.file.read_text(encoding="utf-8"))
    group.send([["ok"]] * 5)
    with running(group, spark):
        until(lambda: len(group.outputs()) == 5, "the query runs")
        paused = pause(settings, [PauseTarget(PauseScope.SOURCE, group.source)], None, 30)
        assert (paused.applied, paused.members) == (1, 1)
        assert [name.role for name in paused.processes] == ["stream"]
        group.send([["ok"]] * 5, first=5)
        time.sleep(4)
        assert len(group.outputs()) == 5
        assert resume(settings, [], 30).whole
        until(lambda: len(group.outputs()) == 10, "the query goes on")
        opened = open_outage(settings, "bank", "ann", None, 30)
        assert (opened.applied, opened.members) == (1, 1)
        group.send([["ok"]] * 5, first=10)
        time.sleep(4)
        assert len(group.outputs()) == 10
        assert close_outage(settings, "bank", "ann", 30).whole
        until(lambda: len(group.outputs()) == 15, "the query goes on again")
    assert group.outputs() == exactly(range(15))
