"""Formatting of the figures in a report."""

from datetime import UTC, datetime, timedelta

import pytest

from kafka_redelivery.pipeline.report.page import _LABELS, _percent, _seconds, _time, trend_ticks
from kafka_redelivery.pipeline.report.report import _unit

_DAYS = ("01", "01", "02", "02", "03")
_HOURS = ("02", "14", "02", "14", "02")
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


@pytest.mark.parametrize(
    ("span", "unit", "labels"),
    [
        (timedelta(seconds=16), "second", ["02:46:55", "02:47:00", "02:47:05", "02:47:10"]),
        (timedelta(), "second", ["02:46:55"]),
        (timedelta(minutes=20), "minute", ["02:46", "02:51", "02:56", "03:01", "03:06"]),
        (timedelta(days=2), "hour", [f"{day} Nov {hour}:46" for day, hour in zip(_DAYS, _HOURS, strict=True)]),
        (timedelta(days=14), "day", [f"2026-11-{day:02}" for day in range(1, 16, 2)]),
    ],
)
def test_each_label_of_the_time_axis_can_be_read_alone(span: timedelta, unit: str, labels: list[str]) -> None:
    """It has hours, minutes and seconds, or the date."""
    first = datetime(2026, 11, 1, 2, 46, 55, tzinfo=UTC)

    ticks = trend_ticks(first, first + span, unit)

    assert [f"{tick:{_LABELS[unit]}}" for tick in ticks] == labels


def test_a_long_period_has_eight_labels() -> None:
    """However long it is."""
    first = datetime(2026, 11, 1, tzinfo=UTC)

    assert len(trend_ticks(first, first + timedelta(days=4000), "day")) == 8
