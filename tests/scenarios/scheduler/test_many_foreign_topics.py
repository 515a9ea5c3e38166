"""A running scheduler asks Kafka for the topics of its group alone, however many others the cluster has."""

import threading
from collections import Counter
from collections.abc import Callable

import pytest

from kafka_redelivery.consumers.dead_letters import monitor
from kafka_redelivery.consumers.process.clients import Instance
from kafka_redelivery.consumers.process.pause_watch import watch_pauses
from kafka_redelivery.consumers.scheduler import run
from kafka_redelivery.consumers.scheduler.run import open_scheduler
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.consumers.telemetry.metrics import Build, Measurements
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.admin import trimming
from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.clients import topic_watch
from kafka_redelivery.transport.clients.reader import GroupReader
from tests.scenarios.running import Group
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka

_TIMES = 3
_RETENTION_S = 86_400


def test_no_periodic_request_is_for_all_topics(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its three periodic tasks, made quick: new topics, trimming, and the monitor of dead letters and owners.

    A tier that is created meanwhile is read all the same.
    """
    group.prepare(partitions=2, metrics={"port": 0}, policyEntry=_policy(200))
    settings = load_settings(group.file.read_text(encoding="utf-8"))
    calls: Counter[str] = Counter()
    started = threading.Event()
    monkeypatch.setattr(topic_watch, "_INTERVAL_S", 0.2)
    monkeypatch.setattr(run, "_INTERVAL_S", 0.2)
    monkeypatch.setattr(monitor, "_REFRESH_S", 0.2)

    def count(owner: type, name: str, as_name: str, when: Callable[..., bool] = lambda *_: True) -> None:
        original = getattr(owner, name)

        def counting(*arguments: object, **options: object) -> object:
            if started.is_set() and when(*arguments):
                calls[as_name] += 1
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, counting)

    count(AdminCalls, "metadata", "all topics")
    count(GroupReader, "partition_counts", "all topics", lambda _, topics=None: topics is None)
    count(topic_watch.TopicWatch, "_take_answer", "new topics")
    count(monitor.DeadLetterMonitor, "_refresh", "monitor")
    original = trimming.trim
    monkeypatch.setattr(run, "trim", lambda *given: (calls.update(["trim"]), original(*given))[1])
    health, observer = Health(), Measurements(Build("1", "scheduler", group.name, "s1"))
    with (
        watch_pauses(settings, "scheduler", "s1", health) as pauses,
        open_scheduler(settings, Instance("s1", stable=True), health, observer, pauses) as scheduler,
    ):
        running = threading.Thread(target=scheduler.run)
        running.start()
        try:
            until(lambda: scheduler.tiers() and health.ready().ok, "the scheduler has joined its group")
            group.configure(policyEntry=_policy(7000))
            group.apply()  # lists all topics
            calls.clear()
            started.set()
            until(lambda: group.tier("7s") in scheduler.tiers(), "the new tier is read")
            periodic = ("new topics", "monitor", "trim")
            until(lambda: all(calls[each] >= _TIMES for each in periodic), f"each is done {_TIMES} times")
            until(lambda: _retention_s(observer) == [_RETENTION_S], "the metrics have the retention of dead letters")
        finally:
            scheduler.stop()
            running.join(60)
    assert calls["all topics"] == 0


def _policy(delay_ms: int) -> dict[str, object]:
    return {
        "redeliveryPolicy": {"initialRedeliveryDelay": delay_ms, "redeliveryDelay": delay_ms},
        "deadLetterStrategy": {"expiration": _RETENTION_S * 1000},
    }


def _retention_s(observer: Measurements) -> list[float]:
    families = (each for each in observer.collect() if each.name == "redelivery_dead_letter_retention_seconds")
    return [sample.value for each in families for sample in each.samples]
