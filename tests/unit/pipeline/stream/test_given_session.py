"""A query in a session of its user: what of the configuration does not apply, and whose settings are looked at."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_redelivery.pipeline.stream.stream import settings_of_spark


def test_settings_of_a_given_session_apply(caplog: pytest.LogCaptureFixture) -> None:
    """The names of those that do not are logged, without their values."""
    conf = SimpleNamespace(getAll=lambda: [("spark.kafka.clusters.a.auth.bootstrap.servers", "k:9092")])
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: conf))
    with caplog.at_level(logging.WARNING):
        found = settings_of_spark(session, {"spark.hadoop.fs.s3a.secret.key": "s3cret"})
    assert found == {"spark.kafka.clusters.a.auth.bootstrap.servers": "k:9092"}
    assert "set there: spark.hadoop.fs.s3a.secret.key" in caplog.text
    assert "s3cret" not in caplog.text
    caplog.clear()
    assert settings_of_spark(None, {"spark.master": "local[4]"})["spark.master"] == "local[4]"
    assert not caplog.records
