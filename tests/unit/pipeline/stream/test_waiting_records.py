"""How the number of waiting records is said at the end of a run."""

import pytest

from kafka_redelivery.pipeline.stream.settling import WaitingRecords

_AT_MS = 1_700_000_000_999
_FIRST, _LAST = "2023-11-14 22:13:20 UTC", "2023-11-14 23:13:20 UTC"


@pytest.mark.parametrize(
    ("waiting", "text"),
    [
        (WaitingRecords(0), "no record waits for a redelivery"),
        (WaitingRecords(1), "1 record waits for a redelivery"),
        (
            WaitingRecords(1200, _AT_MS, _AT_MS + 3_600_000),
            f"1,200 records wait for a redelivery: the first is due at {_FIRST}, the last at {_LAST}",
        ),
    ],
)
def test_the_number_and_until_when(waiting: WaitingRecords, text: str) -> None:
    """The times are left out if no header says them."""
    assert str(waiting) == text
