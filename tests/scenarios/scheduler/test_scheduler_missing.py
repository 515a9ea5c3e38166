"""Worker log, `/readyz` and `topology check` say that no scheduler runs; a failure to find out ends nothing."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kafka_redelivery.consumers.process import scheduler_watch
from kafka_redelivery.consumers.process.scheduler_watch import SchedulerWatch
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.admin import group_members
from kafka_redelivery.transport.admin.group_members import GroupMembers
from tests.scenarios.commands import topology
from tests.scenarios.running import Group
from tests.scenarios.scraping import free_port, get, readiness
from tests.scenarios.waiting import until

MISSING = "no scheduler runs: group "


@pytest.mark.slow
@pytest.mark.long
def test_a_worker_and_the_check_say_it(group: Group) -> None:
    """The status of the probe stays 200, and records are processed."""
    port = free_port()
    group.prepare(metrics={"port": port, "host": "127.0.0.1"})

    worker = group.worker()
    until(lambda: get(port, "/readyz")[1] == "ready\n", "the worker is ready")
    until(lambda: MISSING in readiness(port), "the probe says that no scheduler runs")
    assert readiness(port).startswith("ready\n")
    group.send([["ok"], ["ok"]])
    group.settle()
    assert worker.log.count(MISSING + f"{group.name}.scheduler has no members") == 1

    warning = f"warn: {group.name}.scheduler: the group has no members, so no scheduler runs"
    checked = topology("check", file=group.file)
    assert (checked.code, warning in checked.out) == (exit_codes.OK, True)
    group.configure(metrics={})
    group.scheduler()
    until(lambda: group.cluster.members(f"{group.name}.scheduler"), "the scheduler has joined")
    checked = topology("check", file=group.file)
    assert (checked.code, warning in checked.out) == (exit_codes.OK, False)
    group.stop()


@contextmanager
def watching(group: Group, health: Health) -> Iterator[threading.Thread]:
    """Watch twice a second in a thread while the block runs."""
    settings = load_settings(group.file.read_text(encoding="utf-8"))
    ended = threading.Event()
    thread = threading.Thread(target=SchedulerWatch(settings, health).run, args=(ended, 0.0, 0.5))
    thread.start()
    try:
        yield thread
    finally:
        ended.set()
        thread.join(30)
        assert not thread.is_alive()


def test_each_change_is_logged_once(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    """However often it is seen."""
    group.prepare()
    health = Health()
    health.joined()
    with caplog.at_level(logging.INFO, scheduler_watch.__name__), watching(group, health):
        until(lambda: MISSING in health.ready().reason, "no scheduler runs")
        scheduler = group.scheduler(None)
        until(lambda: health.ready().reason == "ready", "it has joined")
        scheduler.stop()
        until(lambda: MISSING in health.ready().reason, "it has left")
    lines = [record.getMessage().partition(":")[0] for record in caplog.records]
    assert lines == ["no scheduler runs", "a scheduler runs", "no scheduler runs"]


def test_running_processes_do_not_know_the_members_of_the_consumer_protocol(group: Group) -> None:
    """A scheduler that runs is never reported as missing. A command knows, because it may ask."""
    group.prepare(kafka={"group.protocol": "consumer"})
    group.scheduler()
    name = f"{group.name}.scheduler"
    until(lambda: group.cluster.members(name), "the scheduler has joined")
    members = GroupMembers({"bootstrap.servers": group.cluster.servers})
    assert members.any(name) is None
    assert GroupMembers({"bootstrap.servers": group.cluster.servers}, every_protocol=True).any(name) is True
    checked = topology("check", file=group.file)
    assert (checked.code, "no scheduler runs" in checked.out) == (exit_codes.OK, False)
    group.stop()


def test_a_cluster_that_does_not_answer_is_no_missing_scheduler(
    group: Group, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread goes on and adds nothing to the probe."""
    monkeypatch.setattr(group_members, "_TIMEOUT_S", 2.0)
    group.configure(kafka={"bootstrap.servers": "127.0.0.1:1"})
    health = Health()
    health.joined()
    with caplog.at_level(logging.DEBUG, scheduler_watch.__name__), watching(group, health) as thread:
        until(lambda: caplog.text.count("it is unknown whether a scheduler runs") >= 2, "two requests have failed")
        assert thread.is_alive()
        assert health.ready() == (True, "ready")
    assert MISSING not in caplog.text
