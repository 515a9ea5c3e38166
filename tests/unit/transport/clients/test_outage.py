import pytest

from kafka_redelivery.transport.clients import outage
from kafka_redelivery.transport.clients.outage import BACKOFF, RETRY_TIMEOUT_S, Outage
from tests.unit.consumers.doubles import Clock


class Reports:
    """Keeps the reports that it receives."""

    def __init__(self) -> None:
        self.received: list[tuple[str, str | None]] = []

    def __call__(self, client: str, problem: str | None, *, call: bool = False) -> None:
        """Keep it."""
        assert not call
        self.received.append((client, problem))


class Pauses:
    """Stands in for the event that is waited for, and advances the clock instead."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.seconds: list[float] = []

    def __call__(self) -> "Pauses":
        return self

    def wait(self, seconds: float) -> None:
        """Note a pause."""
        self.seconds.append(seconds)
        self.clock.advance(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that outages read."""
    found = Clock()
    monkeypatch.setattr(outage, "monotonic", found)
    return found


@pytest.fixture
def pauses(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Pauses:
    """The pauses made so far."""
    found = Pauses(clock)
    monkeypatch.setattr(outage, "Event", found)
    return found


def test_pauses_grow_to_a_limit_and_begin_again(pauses: Pauses) -> None:
    """The second outage begins with the shortest pause."""
    waits = Outage("writer", Reports())
    for _ in range(10):
        assert waits.wait("gone")
    waits.over()
    waits.wait("gone again")
    assert pauses.seconds[0] == pauses.seconds[-1] < pauses.seconds[1]
    assert sorted(pauses.seconds[:-1]) == pauses.seconds[:-1]
    assert max(pauses.seconds) == BACKOFF.longest_s


@pytest.mark.usefixtures("pauses")
def test_a_wait_with_a_report_has_no_limit() -> None:
    """Every failed attempt is reported, and the end once."""
    reports = Reports()
    waits = Outage("writer", reports)
    waits.over()
    assert all(waits.wait("gone") for _ in range(1000))
    waits.over()
    waits.over()
    assert reports.received == [("writer", "gone")] * 1000 + [("writer", None)]


def test_a_wait_without_a_report_has_a_limit(clock: Clock, pauses: Pauses) -> None:
    """It counts from the first failed attempt, also when calls take longer than pauses."""
    waits = Outage("requests")
    assert waits.wait("gone")
    clock.advance(RETRY_TIMEOUT_S - 1)
    assert waits.wait("gone")
    clock.advance(1)
    assert not waits.wait("gone")
    assert len(pauses.seconds) == 2
    assert waits.wait("another request")
