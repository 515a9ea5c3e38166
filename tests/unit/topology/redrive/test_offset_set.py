"""Sets of offsets, in memory and in records."""

import base64
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.redrive.offset_set import PART, OffsetSet, read_part

OFFSETS = st.lists(st.integers(0, 2**62), max_size=50)


@given(OFFSETS)
def test_what_is_packed_is_read(offsets: list[int]) -> None:
    """Whatever the distances, and also if offsets are repeated or in another order."""
    found = OffsetSet(offsets)
    assert [offset for part in found.parts() for offset in read_part(part)] == sorted(set(offsets)) == list(found)
    assert len(found) == len(set(offsets))


@given(OFFSETS, OFFSETS, st.integers(0, 2**62))
def test_it_is_a_set(first: list[int], second: list[int], offset: int) -> None:
    """Membership, difference and order are those of a set of Python."""
    one, two = OffsetSet(first), OffsetSet(second)
    assert list(one.without([two])) == sorted(set(first) - set(second))
    assert (offset in one) == (offset in first)
    assert list(one.after(offset)) == sorted(each for each in set(first) if each > offset)


def test_parts_fit_into_a_record() -> None:
    """Scattered offsets are cut; 200,000 offsets in a row take less than a kilobyte each."""
    scattered = OffsetSet(n * 1_000_003 for n in range(PART + 1))
    sizes = [len(part) for part in scattered.parts()]
    assert len(sizes) == 2
    assert max(sizes) < 1_000_000
    assert all(len(part) < 1000 for part in OffsetSet(range(200_000)).parts())


@pytest.mark.parametrize("text", ["", "!", base64.b64encode(b"no").decode()])
def test_what_is_no_part(text: str) -> None:
    """It is refused, not read as something else."""
    with pytest.raises(ValueError, match=r"."):
        read_part(text)


def test_a_bomb_is_refused() -> None:
    """A small record cannot take all memory."""
    with pytest.raises(ValueError, match="too large"):
        read_part(base64.b64encode(zlib.compress(bytes(10**8))).decode())
