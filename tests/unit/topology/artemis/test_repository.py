"""Address settings by match: which apply, which comes first, and that they are merged field by field."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.artemis.repository import Resolved, SettingsRepository, Wildcards, matches
from kafka_redelivery.topology.errors import MatchError

WORDS = st.sampled_from(["a", "b", "orders"])
ADDRESSES = st.lists(WORDS, min_size=1, max_size=4).map(".".join)
ENDS = st.sampled_from([[], ["#"]])
MATCHES = st.builds(
    lambda words, end: ".".join([*words, *end]) or "#",
    st.lists(WORDS | st.just("*"), max_size=4),
    ENDS,
)
LAYERS = st.dictionaries(
    st.sampled_from(["max-delivery-attempts", "redelivery-delay", "expiry-delay"]), st.integers(0, 9000)
)


def resolve(settings: Mapping[str, Mapping[str, int]], address: str) -> Resolved:
    """The settings of an address."""
    repository = SettingsRepository()
    for match, layer in settings.items():
        repository.add(match, layer)
    return repository.resolve(address)


@given(st.dictionaries(MATCHES, LAYERS, max_size=6), ADDRESSES)
def test_all_that_match_apply_and_nothing_else(settings: dict[str, dict[str, int]], address: str) -> None:
    """None is left out, none is there twice."""
    applying = [match for match in settings if match == address or matches(match, address)]
    assert sorted(resolve(settings, address).matches) == sorted(applying)


@given(st.dictionaries(MATCHES, LAYERS, max_size=6), ADDRESSES)
def test_each_field_comes_from_the_first_match_that_has_it(settings: dict[str, dict[str, int]], address: str) -> None:
    """The others supply what it leaves open."""
    found = resolve(settings, address)
    for name, field in (("max-delivery-attempts", "max_delivery_attempts"), ("expiry-delay", "expiry_delay")):
        given_by = [settings[match][name] for match in found.matches if name in settings[match]]
        default = getattr(resolve({}, address).settings, field)
        assert getattr(found.settings, field) == (given_by[0] if given_by else default)


@given(st.dictionaries(MATCHES, LAYERS, max_size=6), LAYERS, ADDRESSES)
def test_the_address_itself_comes_first(settings: dict[str, dict[str, int]], own: dict[str, int], address: str) -> None:
    """However many patterns there are."""
    assert resolve({**settings, address: own}, address).matches[0] == address


@given(st.lists(WORDS, min_size=1, max_size=3), ADDRESSES)
def test_any_words_are_none_too(words: list[str], address: str) -> None:
    """``a.#`` is about ``a`` and all below it, but not about ``ab``."""
    base = ".".join(words)
    assert matches(f"{base}.#", address) == (address == base or address.startswith(f"{base}."))


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("a.b", "a.*"),
        ("a.*", "a.#"),
        ("*.*", "a.#"),
        ("a.*", "*.b"),
        ("a.b.#", "a.#"),
        ("*.b.#", "a.#"),
        ("a.#", "#"),
    ],
)
def test_the_more_specific_comes_first(better: str, worse: str) -> None:
    """Plain, then with single words, then with any words; among those the longer."""
    for order in ((better, worse), (worse, better)):
        assert resolve({match: {} for match in order}, "a.b").matches == (better, worse)


def test_other_characters_for_wildcards() -> None:
    """The usual ones are then characters like all others."""
    repository = SettingsRepository(Wildcards(delimiter="/", any_words=">", single_word="%"))
    repository.add("a/>", {"redelivery-delay": 1})
    repository.add("a/%/c", {"redelivery-delay": 2})
    assert repository.resolve("a/b").matches == ("a/>",)
    assert repository.resolve("a/b/c").matches == ("a/%/c", "a/>")
    assert repository.resolve("a.b").matches == ()


def test_a_literal_match_is_about_that_address_alone() -> None:
    """Between the markers wildcards are characters like all others."""
    repository = SettingsRepository(literal_markers="()")
    repository.add("(a.*)", {"redelivery-delay": 1})
    assert repository.resolve("a.*").matches == ("a.*",)
    assert repository.resolve("a.b").matches == ()


@pytest.mark.parametrize(("markers", "match"), [(None, "a.#.b"), ("()", "(a.#.b)"), ("()", "")])
def test_what_the_broker_does_not_start_with_is_refused(markers: str | None, match: str) -> None:
    """A literal match is checked like any other, and with markers an empty one is a fault."""
    with pytest.raises(MatchError, match="match"):
        SettingsRepository(literal_markers=markers).add(match, {})
