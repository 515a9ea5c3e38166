"""Every page of a list has the letters that it would have if all of them were sorted."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_redelivery.dead_letters.index import listing
from kafka_redelivery.dead_letters.index.sql import EVERY, Condition
from tests.examples import share
from tests.unit.consumers.records import NOW, Fetched
from tests.unit.dead_letters.index.stored import TOPIC, published
from tests.unit.dead_letters.index.test_selecting import opened

_WITHIN_S = 60.0
_times = st.lists(
    st.one_of(
        st.integers(NOW, NOW + 50),
        st.integers(NOW - 10**6, NOW + 10**6),
        st.sampled_from([0, NOW, NOW + 10**12]),
    ),
    max_size=24,
)


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide time as often for some letters as for millions."""
    monkeypatch.setattr(listing, "_PARTS", 8)
    monkeypatch.setattr(listing, "_SORTED", 5)


@settings(deadline=None, max_examples=share(10))
@given(times=_times, limit=st.integers(4, 9), oldest=st.booleans())
def test_pages_are_those_of_the_sorted_list(times: list[int], limit: int, oldest: bool) -> None:  # noqa: FBT001
    """Also of letters that died in the same millisecond, and of times that are far from all others."""
    letters = [Fetched(TOPIC, at % 2, at, b"k", b"v", [], time) for at, time in enumerate(times)]
    order = sorted(letters, key=lambda each: (each.stamp_ms, each.number, each.place))
    if not oldest:
        order.sort(key=lambda each: (-each.stamp_ms, each.number, -each.place))
    with TemporaryDirectory() as folder:
        index = opened(published(Path(folder) / "billing", letters or [Fetched(TOPIC, 0, 0, None, None, [], 0)]))
        found = listing.deaths(index, EVERY if letters else Condition("false"), _WITHIN_S)
        assert found.total == len(letters)
        pages = [
            [row.id for row in listing.listed(index, found, skipped, limit, _WITHIN_S, oldest=oldest)]
            for skipped in range(0, len(letters) + 2 * limit, limit)
        ]
        index.close()
    names = [f"{TOPIC}-{each.number}@{each.place}" for each in order]
    assert pages == [names[skipped : skipped + limit] for skipped in range(0, len(letters) + 2 * limit, limit)]


def test_a_page_has_the_letters_that_meet_the_condition(tmp_path: Path) -> None:
    """One of where they stand, too, which the files of the letters do not say."""
    letters = [Fetched(TOPIC, 0, at, b"k%d" % (at % 2), b"v", [], NOW + at) for at in range(40)]
    index = opened(published(tmp_path / "billing", letters))
    odd = listing.deaths(index, Condition("key = ? AND state = 'waiting'", ("k1",)), _WITHIN_S)
    assert odd.total == 20
    page = listing.listed(index, odd, 17, 9, _WITHIN_S, oldest=True)
    assert [row.id for row in page] == [f"{TOPIC}-0@{at}" for at in (35, 37, 39)]
    assert listing.deaths(index, Condition("state = 'sent'"), _WITHIN_S).total == 0
