"""Formatting of the figures in a report."""

from datetime import UTC, datetime, timedelta

import pytest

from kafka_redelivery.pipeline.report.page import _percent, _seconds, _time
from kafka_redelivery.pipeline.report.report import _unit

_DASH = "\N{EN DASH}"


def test_lengths_shares_and_times() -> None:
    """Durations use their largest unit, and a missing value is a dash."""
    lengths = [_seconds(value) for value in (None, 0, 59.9, 60, 3599, 3600, 86_399, 86_400)]
    assert lengths == [_DASH, "0.0 s", "59.9 s", "1.0 min", "60.0 min", "1.0 h", "24.0 h", "1.0 d"]
    assert [_percent(1, 8), _percent(0, 0)] == ["12.5 %", _DASH]
    assert [_time(datetime(2026, 11, 1, 8, tzinfo=UTC)), _time(None)] == ["2026-11-01 08:00:00", _DASH]


@pytest.mark.parametrize(
    ("span", "unit"),
    [
        (timedelta(), "second"),
        (timedelta(minutes=3), "minute"),
        (timedelta(hours=3), "hour"),
        (timedelta(days=1), "hour"),
        (timedelta(days=4), "day"),
    ],
)
def test_the_unit_of_the_trend_fits_the_period(span: timedelta, unit: str) -> None:
    """A longer period has a larger unit."""
    first = datetime(2026, 11, 1, tzinfo=UTC)

    assert _unit(first, first + span) == unit
    assert _unit(None, None) == "second"
