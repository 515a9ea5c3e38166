"""A worker does not say that no scheduler runs while the coordinator of the schedulers' group moves."""

import logging
import threading

import pytest

from kafka_redelivery.consumers.process import scheduler_watch
from kafka_redelivery.consumers.process.scheduler_watch import SchedulerWatch
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.topology.config.loading import load_settings
from tests.crash.brokers.play import Play
from tests.crash.brokers.three import Three
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(1800)]

_LOOK_S = 3.0
"""When it looks after the death of the broker: no other one has taken the group over."""


@pytest.mark.parametrize("protocol", ["classic"], indirect=True)
def test_its_node_is_killed(play: Play, three: Three, caplog: pytest.LogCaptureFixture) -> None:
    """The look that confirms comes when another broker has the group."""
    play.prepare()
    scheduler = play.group.scheduler(None)
    name = f"{play.group.name}.scheduler"
    until(lambda: play.group.cluster.members(name), "the scheduler has joined")
    ended, health = threading.Event(), Health()
    health.joined()
    watch = SchedulerWatch(load_settings(play.group.file.read_text(encoding="utf-8")), health)
    thread = threading.Thread(target=watch.run, args=(ended, _LOOK_S))
    three.nodes[three.group_coordinator(name)].kill()
    with caplog.at_level(logging.INFO, scheduler_watch.__name__):
        thread.start()
        try:
            thread.join(_LOOK_S + scheduler_watch._AGAIN_S + 10)
        finally:
            ended.set()
            thread.join()
    assert scheduler.running
    assert [record.getMessage() for record in caplog.records if record.name == scheduler_watch.__name__] == []
    assert health.ready().reason == "ready"
