"""The bounds of an audit's range are exact."""

import time
from collections.abc import Iterable, Iterator

import pytest

from kafka_redelivery.pipeline.audit.evidence import OUT_OF_ORDER, _begins
from kafka_redelivery.pipeline.audit.snapshot import RangeBound, _ranges, parse_bound
from kafka_redelivery.pipeline.frames import ReaderProgress
from kafka_redelivery.topology.errors import OptionError
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.protocols import Partition

_A, _B = Partition("orders", 0), Partition("orders", 1)
_EIGHT_MS = 1_793_520_000_000
"""2026-11-01T08:00:00Z."""


class _Since(PartitionOffsets):
    """Resolves times without a cluster: only the first partition has later records."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def offsets_for_time(self, partitions: Iterable[Partition], epoch_ms: int) -> dict[Partition, int]:
        self.asked.append(epoch_ms)
        return {place: 7 for place in partitions if place == _A}


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set a local time zone far from UTC."""
    with monkeypatch.context() as there:
        there.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    "text", ["2026-11-01T08:00:00", "2026-11-01T08:00:00Z", "2026-11-01T10:00:00+02:00", "2026-11-01T03:00:00-05:00"]
)
@pytest.mark.usefixtures("tokyo")
def test_a_time_without_a_zone_is_utc(text: str) -> None:
    """The local time zone has no effect."""
    assert parse_bound([text], "from") == RangeBound("from", epoch_ms=_EIGHT_MS)


def test_a_time_after_all_records_is_the_end() -> None:
    """A partition without later records has the bound at its end."""
    positions = _Since()

    assert RangeBound("from", epoch_ms=_EIGHT_MS).of(positions, [_A, _B], {_A: 9, _B: 5}) == {_A: 7, _B: 5}
    assert positions.asked == [_EIGHT_MS]


def test_an_offset_is_for_all_partitions_or_for_one() -> None:
    """An offset without a partition applies to all. A partition of another topic is refused."""
    ends = {_A: 9, _B: 5}

    everywhere, one, foreign = (parse_bound([text], "from") for text in ("3", "orders-1@3", "bills-0@3"))

    assert everywhere is not None
    assert one is not None
    assert foreign is not None
    assert everywhere.of(_Since(), [_A, _B], ends) == {_A: 3, _B: 3}
    assert one.of(_Since(), [_A, _B], ends) == {_B: 3}
    with pytest.raises(OptionError, match="bills-0 is not a partition of a source"):
        foreign.of(_Since(), [_A, _B], ends)


def test_a_range_has_records_that_are_kept_and_read() -> None:
    """It starts at the log start offset at the earliest, and ends by default where the group has read to."""
    starts, ends, progress = {_A: 2, _B: 0}, {_A: 9, _B: 5}, {_A: ReaderProgress(4, 6)}

    def ranges(first: str | None = None, end: str | None = None) -> list[tuple[int, int]]:
        bounds = parse_bound([first] if first else [], "from"), parse_bound([end] if end else [], "to")
        return [(each.first, each.end) for each in _ranges(_Since(), [_A, _B], starts, ends, progress, bounds)]

    assert ranges() == [(2, 6), (0, 0)]  # nothing is committed of the second
    assert ranges("3", "8") == [(3, 8), (3, 5)]
    assert ranges("0", "100") == [(2, 9), (0, 5)]
    assert ranges("8", "4") == [(8, 8), (8, 8)]


def test_the_offset_from_which_the_journal_is_complete() -> None:
    """It is the first entry if the journal was on from the beginning, otherwise the first acked record."""
    assert _begins(None, 5, 0, in_order=True) == 5
    assert _begins(40, 10, 10, in_order=True) == 10
    assert _begins(40, 30, 10, in_order=True) == 40
    assert _begins(40, 30, 10, in_order=False) == 40 + OUT_OF_ORDER
    assert _begins(11 + OUT_OF_ORDER, 10, 10, in_order=True) == 11 + OUT_OF_ORDER
