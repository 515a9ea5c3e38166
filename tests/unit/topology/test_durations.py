"""Durations as text."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.durations import format_duration, parse_duration

MILLISECOND = timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("250ms", timedelta(milliseconds=250)),
        ("1s", timedelta(seconds=1)),
        ("90s", timedelta(seconds=90)),
        ("5m", timedelta(minutes=5)),
        ("1h", timedelta(hours=1)),
        ("7d", timedelta(days=7)),
        ("1.5h", timedelta(minutes=90)),
        ("0.25s", timedelta(milliseconds=250)),
        ("30 s", timedelta(seconds=30)),
        (" 30s\n", timedelta(seconds=30)),
        ("0ms", timedelta(0)),
        ("0d", timedelta(0)),
        ("36500d", timedelta(days=36500)),
    ],
)
def test_a_number_and_its_unit(text: str, duration: timedelta) -> None:
    """A number with a unit is a duration; so is zero."""
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    "value",
    [
        0,
        30,
        1.5,
        True,
        None,
        b"30s",
        "",
        "30",
        "s",
        "-1s",
        "+1s",
        "1e3s",
        "1,5s",
        ".5s",
        "1.s",
        "1s1s",
        "1S",
        "1w",
        "1 m s",
    ],
)
def test_anything_else_is_refused(value: object) -> None:
    """A number without a unit is refused, too; the error has the value and a fix."""
    with pytest.raises(ValueError, match="is not a duration; write a number and a unit, such as 250ms") as caught:
        parse_duration(value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("text", ["1000000000d", "999999999999d", "999999999999h"])
def test_a_duration_beyond_what_python_can_hold_is_refused(text: str) -> None:
    """It raises ValueError, not OverflowError."""
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@given(st.timedeltas())
def test_a_timedelta_passes_through(value: timedelta) -> None:
    """A value that is a duration already is returned unchanged."""
    assert parse_duration(value) is value


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0ms"),
        (1, "1ms"),
        (999, "999ms"),
        (1000, "1s"),
        (1500, "1500ms"),
        (60_000, "1m"),
        (90_000, "90s"),
        (3_600_000, "1h"),
        (5_400_000, "90m"),
        (86_400_000, "1d"),
        (129_600_000, "36h"),
    ],
)
def test_a_duration_is_written_in_its_largest_whole_unit(milliseconds: int, text: str) -> None:
    """The text has no fraction."""
    assert format_duration(milliseconds * MILLISECOND) == text


@given(st.integers(0, 999_999_999_999))
def test_a_formatted_duration_is_parsed_back(milliseconds: int) -> None:
    """A formatted duration of whole milliseconds up to thirty years is parsed to the same value."""
    duration = milliseconds * MILLISECOND
    assert parse_duration(format_duration(duration)) == duration


@given(st.integers(0, 10**6), st.integers(0, 999), st.sampled_from(["s", "m", "h"]))
def test_a_fraction_is_exact_to_the_millisecond(whole: int, thousandths: int, unit: str) -> None:
    """Binary fractions cause no error."""
    one = parse_duration(f"1{unit}")
    assert parse_duration(f"{whole}.{thousandths:03}{unit}") == whole * one + thousandths * (one / 1000)
