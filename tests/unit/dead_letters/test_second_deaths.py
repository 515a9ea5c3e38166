"""A letter of a share group has died again only if its record and that of its later letter were read."""

from collections.abc import Iterator, Mapping, Sequence

import pytest

from kafka_redelivery.dead_letters import second_deaths
from kafka_redelivery.dead_letters.pointers import Pointer, Source
from kafka_redelivery.dead_letters.second_deaths import SecondDeaths
from kafka_redelivery.dead_letters.source import OtherSystem
from kafka_redelivery.topology.redrive.job import SliceId
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.topology.wire.headers import REDRIVE, HeaderList, RedriveMark
from kafka_redelivery.transport.errors import ReaderError
from tests.foreign.recorded import recorded
from tests.unit.consumers.records import Fetched
from tests.unit.topology.redrive.test_ownership import log_of

_HEADERS = dict(next(each for each in recorded("share") if each.topic == "dlq.s-reject").headers)
_MARK = RedriveMark("first", 0, 0, 1)
_JOBS = log_of([("first", 0, {SliceId("dead", 0): {0}})])


def letter(offset: int) -> Fetched:
    """Return a letter without content of the record with the same offset."""
    headers = _HEADERS | {
        "__dlq.errors.topic": b"orders",
        "__dlq.errors.partition": b"0",
        "__dlq.errors.offset": b"%d" % offset,
    }
    return Fetched("dead", 0, offset, None, None, list(headers.items()))


class Deaths(SecondDeaths):
    """Can read the records that are given to it, up to the first that is missing."""

    readable: Mapping[int, Source]

    def _readable(self, pointers: Sequence[Pointer]) -> Iterator[Source]:
        for each in pointers:
            if each.offset not in self.readable:
                raise ReaderError("the partition has no leader")
            yield self.readable[each.offset]

    def marks(self, **values: bytes) -> list[RedriveMark]:
        """Return the letters that have died again; ``first`` and ``second`` are the values of records."""
        given = {offset: values[name] for offset, name in enumerate(("first", "second")) if name in values}
        self.readable = {offset: record(offset, value) for offset, value in given.items()}
        return list(self.found(_JOBS, {}, TopicIds()))


@pytest.fixture
def deaths(monkeypatch: pytest.MonkeyPatch) -> Deaths:
    """Return what reads the letter of a job, and one of a record with the mark of that."""
    letters = iter([letter(0), letter(1)])
    monkeypatch.setattr(second_deaths, "read_between", lambda *_: letters)
    return Deaths(OtherSystem("dead", {}))


def record(offset: int, value: bytes) -> Source:
    """Return the record of a letter; that of the later one has the mark."""
    headers: HeaderList = [(REDRIVE, str(_MARK).encode())] if offset else []
    return Source(Fetched("orders", 0, offset, b"k", value, headers))


def test_what_cannot_be_read_is_asked_for_again(deaths: Deaths) -> None:
    """A partition that has a leader again says what it would have said before."""
    assert (deaths.marks(), deaths.complete) == ([], False)
    assert (deaths.marks(first=b"1"), deaths.complete) == ([], False)
    assert (deaths.marks(second=b"1"), deaths.complete) == ([], False), "the mark may be forged"
    assert (deaths.marks(first=b"1"), deaths.complete) == ([_MARK], True)
    assert deaths.marks() == [_MARK], "each record is read once"


def test_a_forged_mark(deaths: Deaths) -> None:
    """The record with the mark has another value."""
    assert (deaths.marks(first=b"1", second=b"2"), deaths.complete) == ([], True)
