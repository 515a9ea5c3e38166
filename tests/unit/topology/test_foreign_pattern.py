"""Regular expressions from strangers are matched in bounded time and memory, and mean what they mean to Python."""

import re
from time import perf_counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from topology.configuration import ConfigurationError, load_settings
from topology.errors import MatchError
from topology.foreign_pattern import ForeignPattern

SLOW = "(a{1,1000}){1,1000}b"
NAME = "a" * 249
HEAD = f"group: g\nkafka: {{bootstrap.servers: x}}\nsources: [{{topic: {NAME[:200]}}}]\n"


def fault(text: str) -> tuple[str, str]:
    """Place and problem of the only fault of a configuration, which must be found soon."""
    started = perf_counter()
    with pytest.raises(ConfigurationError) as caught:
        load_settings(HEAD + text)
    assert perf_counter() - started < 20
    [found] = caught.value.faults
    return found.place, found.problem


def test_a_pattern_that_would_run_for_years_is_given_up() -> None:
    """The error tells the pattern as it was written."""
    with pytest.raises(MatchError, match="in a second") as caught:
        ForeignPattern(SLOW, "as written").matches(NAME)
    assert caught.value.match == "as written"


@pytest.mark.parametrize(
    "text", ["((a{1000}){1000}){1000}", "(?:(?:ab){300}){300}", "(?:[{(]{9}){9999}x", "(" * 5000 + ")" * 5000]
)
def test_a_pattern_that_would_fill_the_memory_is_refused(text: str) -> None:
    """Before it is compiled."""
    started = perf_counter()
    with pytest.raises(re.error):
        ForeignPattern(text, text)
    assert perf_counter() - started < 10


@pytest.mark.parametrize(
    "text", [r"(?:[a-z]{1,63}\.){1,8}[a-z]{2,63}", r"[({]{2}\{{20}", "(a|b)*c+", r"(\w+\.)*\w+", "a{1000}"]
)
def test_honest_patterns_are_not_refused(text: str) -> None:
    """Repetitions within repetitions are usual, and so are brackets that are characters."""
    ForeignPattern(text, text)


@given(
    st.text("ab.*+?|()[]^{}2,\\dei<w-", max_size=12),
    st.lists(st.text("ab.-2", max_size=8), min_size=1, max_size=4),
)
@example("a{d}", ["a{d}", "a"])
@example("{d", ["{d"])
@example("[]{d]{,2}", ["{d", "]"])
def test_whatever_python_reads_means_the_same(text: str, names: list[str]) -> None:
    """And what it refuses is refused."""
    try:
        pattern = re.compile(text, re.ASCII)
    except re.error:
        with pytest.raises(re.error):
            ForeignPattern(text, text, re.ASCII)
        return
    ours = ForeignPattern(text, text, re.ASCII)
    assert [ours.matches(name) for name in names] == [pattern.fullmatch(name) is not None for name in names]


def test_the_place_is_told_for_classic() -> None:
    """Where a configuration is loaded, it is a fault as others are."""
    plugin = f"discardingDLQBrokerPlugin: {{dropAll: false, dropOnly: 'x {SLOW}'}}"
    place, problem = fault(f"activemq: {{plugins: [{{{plugin}}}]}}")
    assert place.endswith("activemq.plugins.0.discardingDLQBrokerPlugin.dropOnly")
    assert SLOW in problem


def test_the_place_is_told_for_artemis() -> None:
    """An address setting's match is a regular expression, too."""
    place, _ = fault(f"artemis: {{address-settings: [{{match: '#'}}, {{match: '{SLOW}.#'}}]}}")
    assert place.endswith("artemis.address-settings.1.match")
