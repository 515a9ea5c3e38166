"""Times that a person writes."""

import pytest

from kafka_redelivery.topology.durations import parse_time

_NOW_MS = 1_772_352_000_000  # 2026-03-01T08:00:00Z


@pytest.mark.parametrize(
    ("text", "ago", "expected"),
    [
        ("2h", True, _NOW_MS - 7_200_000),
        ("2h", False, _NOW_MS + 7_200_000),
        ("2026-03-01T08:00", True, _NOW_MS),
        ("2026-03-01T09:00+01:00", False, _NOW_MS),
        ("2026-03-01T08:00:00.5Z", False, _NOW_MS + 500),
        ("02:00", True, _NOW_MS - 6 * 3_600_000),
        ("08:00", True, _NOW_MS),
        ("08:00:01", True, _NOW_MS + 1000 - 24 * 3_600_000),
        ("08:00:01", False, _NOW_MS + 1000),
        ("08:00", False, _NOW_MS + 24 * 3_600_000),
    ],
)
def test_a_time_or_a_duration(text: str, ago: bool, expected: int) -> None:  # noqa: FBT001 - a parameter of a test
    """A time without a zone is in UTC; a duration is counted from now; that of a clock is the last or the next."""
    assert parse_time(text, _NOW_MS, ago=ago) == expected


@pytest.mark.parametrize(
    "text",
    ["soon", "", "99999d", "9999999d", "0001-01-01", "9999-12-31T23:59:59.999-01:00", "-1s", "24:00", "2:00", "02:00Z"],
)
def test_no_time(text: str) -> None:
    """A time that cannot be kept or shown is refused."""
    with pytest.raises(ValueError, match=r"neither a time|before 1970"):
        parse_time(text, _NOW_MS, ago=True)
