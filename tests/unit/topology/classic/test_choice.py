"""Among several entries one decides, and always the same."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.classic.choice import DestinationMap, choose, compare, matches, specificity
from kafka_redelivery.topology.classic.destination import Destination, DestinationKind, parse_destination

WORDS = st.sampled_from(["A", "B", "*", ">"])
NAMES = st.lists(st.sampled_from(["A", "B", "C"]), min_size=1, max_size=4).map(".".join)
PATTERNS = st.lists(WORDS, min_size=1, max_size=4).map(".".join).filter(lambda text: not text.endswith(">.>"))
"""``A.>.>`` means ``A`` as a filter, but the broker's map does not find it there."""

KINDS = st.sampled_from(DestinationKind)


def patterns(*texts: str) -> list[Destination]:
    """Patterns of queues."""
    return [parse_destination(text) for text in texts]


@given(st.lists(PATTERNS, max_size=5, unique=True), NAMES)
def test_the_order_of_the_entries_does_not_decide(texts: list[str], name: str) -> None:
    """A configuration can be sorted as one likes."""
    destination = parse_destination(name)
    winners = set()
    for ordered in list(permutations(texts))[:24]:
        choice = choose(patterns(*ordered), destination)
        winners.add((None if choice.winner is None else ordered[choice.winner], choice.stable))
    assert len(winners) == 1


@given(st.lists(PATTERNS, max_size=5), NAMES)
def test_all_that_match_are_ranked_and_nothing_else(texts: list[str], name: str) -> None:
    """Each once."""
    destination, entries = parse_destination(name), patterns(*texts)
    ranked = choose(entries, destination).ranked
    assert sorted(ranked) == [index for index, entry in enumerate(entries) if matches(entry, destination)]


@given(PATTERNS, NAMES)
def test_the_map_finds_all_that_match(text: str, name: str) -> None:
    """It may find more, but never misses one."""
    pattern, destination = parse_destination(text), parse_destination(name)
    if matches(pattern, destination):
        assert DestinationMap([pattern]).candidates(destination) == [0]


@given(st.lists(PATTERNS, max_size=4), NAMES)
def test_an_exact_name_always_wins(texts: list[str], name: str) -> None:
    """However many patterns match, too."""
    choice = choose(patterns(*[text for text in texts if text != name], name), parse_destination(name))
    assert choice.stable
    assert choice.winner == len([text for text in texts if text != name])


@given(KINDS, KINDS, PATTERNS, NAMES)
def test_kinds_do_not_mix(one: DestinationKind, other: DestinationKind, text: str, name: str) -> None:
    """A pattern of queues says nothing about topics."""
    if one is not other:
        assert not matches(Destination(one, text), Destination(other, name))


@given(PATTERNS, PATTERNS)
def test_specificity_is_an_order(one: str, other: str) -> None:
    """Where the broker has none."""
    mine, theirs = (specificity(parse_destination(text)) for text in (one, other))
    assert (mine == theirs) == (one == other)


@pytest.mark.parametrize(
    ("entries", "name", "winner"),
    [
        (("A.*", "A.>"), "A.B", "A.*"),
        (("*", ">"), "A", "*"),
        ((">", "*.>"), "A", "*.>"),
        (("A.*.>", "A.>"), "A.B", "A.*.>"),
        ((">", ">"), "A", ">"),
    ],
)
def test_where_the_broker_changes_its_mind_the_most_specific_decides(
    entries: tuple[str, ...], name: str, winner: str
) -> None:
    """And it is known that the broker would not always."""
    choice = choose(patterns(*entries), parse_destination(name))
    assert not choice.stable
    assert choice.winner is not None
    assert entries[choice.winner] == winner


def test_the_alphabet_decides_between_patterns_that_do_not_cover_each_other() -> None:
    """As in the broker, though it may not be what is meant."""
    assert choose(patterns("A.*", "*.B"), parse_destination("A.B")).winner == 1
    assert compare(*patterns("*.B", "A.*")) == -1
