"""Times of the report are UTC, wherever the machine is."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from kafka_redelivery.pipeline.report.report import _value


@pytest.fixture(params=["UTC", "America/New_York"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The time zone of the machine."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize("utc", [datetime(2026, 7, 1, 12, tzinfo=UTC), datetime(2026, 11, 1, 6, 30, tzinfo=UTC)])
def test_times_are_utc_in_every_time_zone(utc: datetime) -> None:
    """PySpark makes local times of timestamps; the second one is in the hour that New York has twice."""
    collected = datetime.fromtimestamp(utc.timestamp())  # noqa: DTZ006 - as PySpark does
    assert _value([{"since": collected}]) == [{"since": utc}]
    assert _value(collected).tzinfo is UTC
