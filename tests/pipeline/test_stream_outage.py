"""What a handler of a query depends on goes away: the query waits and goes on, and a run for what is there now ends."""

import logging
import time

import pytest
from pyspark.sql import SparkSession

from kafka_redelivery.consumers.operations.outages import look_at_outages
from kafka_redelivery.pipeline.errors import StreamUnsettledError
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.config.loading import load_settings
from tests.pipeline.streaming import prepare, run, running
from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.spark]

PAUSES = {"firstPause": "1s", "longestPause": "2s"}
PROBE = """
from pathlib import Path

def answers():
    return not Path({down!r}).exists()
"""


def untouched(group: Group) -> bool:
    """Whether no record has failed: no tier and no dead-letter topic has one."""
    _, tiers = group.internal()
    return not any(group.cluster.read(topic) for topic in tiers) and not group.dead()


@pytest.mark.parametrize("probe", [False, True], ids=["record", "probe"])
def test_a_query_waits_for_what_is_away_and_goes_on(
    group: Group, spark: SparkSession, caplog: pytest.LogCaptureFixture, *, probe: bool
) -> None:
    """Lost 0, doubled 0, attempts 0, dead letters 0; and at most one call for each pause and task.

    With a probe the driver asks that, and no record is tried before it has answered.
    """
    caplog.set_level(logging.WARNING)
    source = {"topic": group.source, "value": {"format": "json"}, "dependencies": ["bank"]}
    down, module = group.folder / "down", f"probe_{group.name}"
    (group.folder / f"{module}.py").write_text(PROBE.format(down=str(down)), encoding="utf-8")
    asked = {"probe": f"{module}:answers"} if probe else {}
    prepare(group, sources=[source], dependencies={"bank": PAUSES | asked})
    settings = load_settings(group.file.read_text(encoding="utf-8"))
    script = [f"bank {down}", "raise"]
    group.send([script] * 20)
    with running(group, spark):
        until(lambda: len(group.outputs()) == 20, "the query runs")
        down.touch()
        group.send([script] * 20, first=20)
        until(lambda: [each.opened and each.opened.by for each in look_at_outages(settings)] == ["spark"], "it is away")
        time.sleep(3)
        calls = down.read_text(encoding="utf-8").splitlines()
        down.unlink()
        until(lambda: len(group.outputs()) == 40, "the query goes on")
    assert group.outputs() == exactly(range(40))
    assert untouched(group)
    assert (1 <= len(calls) <= 2) if probe else (2 <= len(calls) <= 8)
    lines = [each.message for each in caplog.records if each.name.endswith("outages")]
    assert len(lines) == 2
    assert lines[0].startswith("bank is away: Unavailable")
    why = "its probe has answered" if probe else "a record that had waited was handled"
    assert f"{why}; 20 records wait, and the load rises" in lines[1]


def test_a_run_for_what_is_there_now_ends_in_an_outage(group: Group, spark: SparkSession) -> None:
    """The exit code says that records wait, the message how many. The next run handles them."""
    source = {"topic": group.source, "value": {"format": "json"}, "dependencies": ["bank"]}
    prepare(group, sources=[source], dependencies={"bank": PAUSES})
    down = group.folder / "down"
    down.touch()
    group.send([[f"bank {down}", "raise"]] * 6)

    text = "an outage of bank .*; 6 records of sources and ready topics have no outcome"
    with pytest.raises(StreamUnsettledError, match=text) as ended:
        run(group, spark)
    assert ended.value.exit_code == exit_codes.UNSETTLED

    down.unlink()
    run(group, spark)
    assert group.outputs() == exactly(range(6))
    assert untouched(group)
