"""A reader of ranges gives up when Kafka sends nothing of what is unread, and only then."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from kafka_redelivery.transport import assigned_reader
from kafka_redelivery.transport.assigned_reader import read_between
from kafka_redelivery.transport.errors import ReaderError
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.doubles import Clock
from tests.unit.consumers.records import Fetched

STUCK, BUSY = Partition("t", 0), Partition("t", 1)


class Sent(Fetched):
    """A record, not an error."""

    def error(self) -> None:
        """There is none."""


class Consumer:
    """Has these records, one for each poll, and nothing more; a poll without a record takes its whole time."""

    def __init__(self, clock: Clock, records: Iterable[Any]) -> None:
        self._clock = clock
        self._records: Iterator[Any] = iter(records)

    def incremental_assign(self, partitions: object) -> None:
        """Read partitions."""

    def poll(self, timeout_s: float) -> Any:  # noqa: ANN401 - as the client's
        """Return the next record."""
        self._clock.advance(timeout_s)
        return next(self._records, None)

    def consume(self, number: int, timeout_s: float) -> list[Any]:
        """Return what is there besides."""
        del number, timeout_s
        return []

    def close(self) -> None:
        """Close."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the reader."""
    clock = Clock()
    monkeypatch.setattr(assigned_reader, "monotonic", clock)
    return clock


def read(monkeypatch: pytest.MonkeyPatch, clock: Clock, records: Iterable[Any], ends: dict[Partition, int]) -> Any:  # noqa: ANN401 - an iterator of doubles
    """Read up to the ends, with five seconds of patience."""
    monkeypatch.setattr(assigned_reader, "open_consumer", lambda *_: Consumer(clock, records))
    return read_between({"bootstrap.servers": "nowhere"}, "g", {}, ends, stalled_s=5.0)


def test_new_records_of_a_partition_that_is_read_do_not_prolong_the_wait_for_another(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """Its producers may never pause, while a transaction hangs in the other."""
    busy = (Sent(*BUSY, offset) for offset in range(1_000))

    with pytest.raises(ReaderError, match="t-0 cannot be read up to offset 1"):
        list(read(monkeypatch, clock, busy, {STUCK: 1, BUSY: 1}))

    assert next(busy).offset() < 100


def test_the_time_that_the_caller_takes_is_not_waited_for_kafka(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """A job may send what it has read at a limited rate."""
    records = [Sent(*STUCK, 0), None, Sent(*STUCK, 1)]
    found = []

    for message in read(monkeypatch, clock, records, {STUCK: 2}):
        found.append(message.offset())
        clock.advance(600)

    assert found == [0, 1]
