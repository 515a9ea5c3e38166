"""What waits is counted by reading it where it is little: offsets of transaction markers are no records."""

from collections.abc import Iterator, Mapping
from contextlib import closing

import pytest

from kafka_redelivery.consumers.operations import waiting
from kafka_redelivery.consumers.operations.status import StatusReader, WaitingRecords, _backlog, _tier
from kafka_redelivery.consumers.operations.waiting import Positions
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.transport.protocols import Message, Partition
from tests.unit.consumers.records import NOW, record

MARKER, FEW, MANY = (Partition("orders", number) for number in range(3))
READY = Partition("ready", 0)
_RECORDS = {FEW: [4, 5, 7], MANY: list(range(5000)), READY: []}


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[StatusReader]:
    """A reader of partitions that have these records."""

    def read(
        _settings: object, ranges: Mapping[Partition, tuple[int, int]], _limit: int, *_: object
    ) -> Iterator[Message]:
        assert MANY not in ranges
        for partition, (first, end) in ranges.items():
            for offset in _RECORDS.get(partition, ()):
                if first <= offset < end:
                    yield record(offset, topic=partition.topic, partition=partition.number)

    monkeypatch.setattr(waiting, "read", read)
    settings = load_settings("group: billing\nkafka: {bootstrap.servers: '127.0.0.1:1'}\nsources: [{topic: orders}]")
    with closing(StatusReader(settings)) as found:
        yield found


def _positions(ends: Mapping[Partition, int], finished: Mapping[Partition, Checkpoint]) -> Positions:
    return Positions(dict.fromkeys(ends, 0), ends, finished)


def test_markers_and_finished_records_are_not_counted(reader: StatusReader) -> None:
    """A marker alone is nothing that waits; of many records their number is a bound."""
    progress = Progress(4)
    for offset in (4, 5):
        progress.track(offset)
    progress.complete([5])
    finished = {MARKER: Checkpoint(9, ""), FEW: progress.checkpoint(), MANY: Checkpoint(0, "")}
    positions = _positions({MARKER: 10, FEW: 9}, finished)
    counted = reader._counted(positions)
    found = _backlog(positions, "orders", "source", counted)
    assert (found.records, found.exact) == (2, True)
    more = _positions({MARKER: 10, FEW: 9, MANY: 5000}, finished)
    found = _backlog(more, "orders", "source", reader._counted(more))
    assert (found.records, found.exact) == (5002, False)
    nothing = _positions({READY: 0}, {})
    found = _backlog(nothing, "ready", "ready", reader._counted(nothing))
    assert (found.records, found.exact) == (0, True)


def test_what_has_not_moved_is_not_read_again(reader: StatusReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """A console looks every two seconds."""
    positions = _positions({FEW: 9}, {})
    assert reader._counted(positions) == {FEW: 3}
    monkeypatch.setattr(waiting, "read", None)
    assert reader._counted(_positions({FEW: 9}, {})) == {FEW: 3}


@pytest.mark.parametrize(("end", "records", "exact"), [(3, 2, True), (20_000, 20_000, False)])
def test_a_tier_that_was_read_whole_is_counted(end: int, records: int, exact: bool) -> None:  # noqa: FBT001 - a parameter
    """Two records and a marker are two; of a tier that is larger than what is read the rest is not known."""
    tier = Partition("billing.retry.5m", 0)
    found = _tier(_positions({tier: end}, {}), tier.topic, WaitingRecords([NOW, NOW + 1]), NOW)
    assert (found.records, found.exact) == (records, exact)
