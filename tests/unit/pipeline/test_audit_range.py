"""The range of an audit is what its ends say, to the offset."""

import time
from collections.abc import Iterable, Iterator

import pytest

from pipeline.audit_journal import OUT_OF_ORDER, _begins
from pipeline.audit_range import Edge, EdgeError, parse_edge
from pipeline.audit_survey import _ranges
from pipeline.progress_frames import Standing
from topology.settings import Ordering
from transport.positions import Positions
from transport.protocols import Partition

_A, _B = Partition("orders", 0), Partition("orders", 1)
_EIGHT_MS = 1_793_520_000_000
"""2026-11-01T08:00:00Z."""


class _Since(Positions):
    """Answers about times without a cluster: only the first partition has records since then."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def since(self, places: Iterable[Partition], epoch_ms: int) -> dict[Partition, int]:
        self.asked.append(epoch_ms)
        return {place: 7 for place in places if place == _A}


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Far from UTC."""
    with monkeypatch.context() as there:
        there.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    "text", ["2026-11-01T08:00:00", "2026-11-01T08:00:00Z", "2026-11-01T10:00:00+02:00", "2026-11-01T03:00:00-05:00"]
)
@pytest.mark.usefixtures("tokyo")
def test_a_time_is_utc_unless_it_says_otherwise(text: str) -> None:
    """Wherever the audit runs the same text means the same moment."""
    assert parse_edge([text]) == Edge(epoch_ms=_EIGHT_MS)


def test_a_time_after_all_records_is_the_end() -> None:
    """A partition to which nothing has come since then is at its end there, not at its beginning."""
    positions = _Since()

    assert Edge(epoch_ms=_EIGHT_MS).of(positions, [_A, _B], {_A: 9, _B: 5}) == {_A: 7, _B: 5}
    assert positions.asked == [_EIGHT_MS]


def test_offsets_are_of_all_partitions_or_of_those_named() -> None:
    """One offset is every partition's; a partition that is none of the sources' is refused."""
    ends = {_A: 9, _B: 5}

    everywhere, one, foreign = parse_edge(["3"]), parse_edge(["orders-1@3"]), parse_edge(["bills-0@3"])

    assert everywhere is not None
    assert one is not None
    assert foreign is not None
    assert everywhere.of(_Since(), [_A, _B], ends) == {_A: 3, _B: 3}
    assert one.of(_Since(), [_A, _B], ends) == {_B: 3}
    with pytest.raises(EdgeError, match="bills-0 is no partition of a source"):
        foreign.of(_Since(), [_A, _B], ends)


def test_a_range_holds_what_is_kept_and_has_been_read() -> None:
    """It begins with what Kafka still has, and ends where the group is, or with what is there."""
    starts, ends, standings = {_A: 2, _B: 0}, {_A: 9, _B: 5}, {_A: Standing(4, 6)}

    def ranges(first: str | None = None, end: str | None = None) -> list[tuple[int, int]]:
        edges = parse_edge([first] if first else []), parse_edge([end] if end else [])
        return [(each.first, each.end) for each in _ranges(_Since(), [_A, _B], starts, ends, standings, edges)]

    assert ranges() == [(2, 6), (0, 0)]  # nothing is committed of the second
    assert ranges("3", "8") == [(3, 8), (3, 5)]
    assert ranges("0", "100") == [(2, 9), (0, 5)]
    assert ranges("8", "4") == [(8, 8), (8, 8)]


def test_the_journal_must_tell_from_where_it_was_on() -> None:
    """From its first word if it was on from the beginning, else from the first record it calls acked."""
    assert _begins(None, 5, 0, Ordering.PARTITION) == 5
    assert _begins(40, 10, 10, Ordering.PARTITION) == 10
    assert _begins(40, 30, 10, Ordering.PARTITION) == 40
    assert _begins(40, 30, 10, Ordering.KEY) == 40 + OUT_OF_ORDER
    assert _begins(11 + OUT_OF_ORDER, 10, 10, Ordering.PARTITION) == 11 + OUT_OF_ORDER
