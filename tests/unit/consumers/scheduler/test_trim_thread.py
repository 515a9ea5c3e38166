"""Trimming goes on after every error: internal topics have no retention, so without it the disks fill."""

import logging
import threading

import pytest

from kafka_redelivery.consumers.scheduler import run as trim_thread
from kafka_redelivery.consumers.scheduler.run import trimming
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.errors import ControlRecordError
from tests.scenarios.waiting import until


def test_an_error_ends_one_attempt(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Also one that is none of the cluster, such as a record of another program."""
    attempts: list[int] = []
    ended = threading.Event()

    def trim(_settings: Settings, now_ms: int, _names: object) -> dict[object, int]:
        attempts.append(now_ms)
        if len(attempts) < 3:
            raise ControlRecordError("{}", "no JSON")
        ended.set()
        return {}

    monkeypatch.setattr(trim_thread, "trim", trim)
    monkeypatch.setattr(trim_thread, "_INTERVAL_S", 0.01)
    settings = load_settings("{group: billing, kafka: {bootstrap.servers: localhost}, sources: [{topic: orders}]}")
    with caplog.at_level(logging.ERROR), trimming(settings, lambda: 7, tuple):
        until(ended.is_set, "it is tried again")
    assert set(attempts) == {7}
    assert "some finished records are not deleted now" in caplog.text
