"""Growing pauses between attempts."""

import pytest

from kafka_redelivery.topology.backoff import Backoff


@pytest.mark.parametrize(
    ("backoff", "pauses_s"),
    [
        (Backoff(), [1, 2, 4, 8, 16, 30, 30]),
        (Backoff(0.2, 5.0), [0.2, 0.4, 0.8, 1.6, 3.2, 5, 5]),
        (Backoff(4.0, 3.0), [3, 3, 3]),
        (Backoff(0.0, 0.0), [0, 0, 0]),
    ],
)
def test_pauses_double_up_to_the_longest(backoff: Backoff, pauses_s: list[float]) -> None:
    """Also if they begin beyond it, or there is none."""
    found = []
    for _ in pauses_s:
        backoff = backoff.failed(100.0)
        found.append(backoff.pause_s)
    assert found == pauses_s


def test_an_attempt_is_due_after_the_pause() -> None:
    """The first one is due at once."""
    assert Backoff().is_due(0.0)
    failed = Backoff().failed(100.0)
    assert not failed.is_due(100.9)
    assert failed.is_due(101.0)
