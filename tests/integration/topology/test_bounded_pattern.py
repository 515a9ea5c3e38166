"""Untrusted regular expressions are matched in bounded time and memory, with the meaning that ``re`` gives them."""

import re
from time import perf_counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.errors import MatchError
from kafka_redelivery.topology.faults import ConfigurationError
from kafka_redelivery.topology.java.regex import UntrustedPattern

SLOW = "(a{1,1000}){1,1000}b"
NAME = "a" * 249
HEAD = f"group: g\nkafka: {{bootstrap.servers: x}}\nsources: [{{topic: {NAME[:200]}}}]\n"


def fault(text: str) -> tuple[str, str]:
    """Location and problem of the only fault of a configuration, found in less than 20 seconds."""
    started = perf_counter()
    with pytest.raises(ConfigurationError) as caught:
        load_settings(HEAD + text)
    assert perf_counter() - started < 20
    [found] = caught.value.faults
    return found.location, found.problem


def test_matching_has_a_time_limit() -> None:
    """The error has the pattern as its author wrote it."""
    with pytest.raises(MatchError, match="in a second") as caught:
        UntrustedPattern(SLOW, "as written").matches(NAME)
    assert caught.value.match == "as written"


@pytest.mark.parametrize(
    "text", ["((a{1000}){1000}){1000}", "(?:(?:ab){300}){300}", "(?:[{(]{9}){9999}x", "(" * 5000 + ")" * 5000]
)
def test_a_pattern_that_needs_too_much_memory_is_refused(text: str) -> None:
    """It is refused before it is compiled."""
    started = perf_counter()
    with pytest.raises(re.error):
        UntrustedPattern(text, text)
    assert perf_counter() - started < 10


@pytest.mark.parametrize(
    "text", [r"(?:[a-z]{1,63}\.){1,8}[a-z]{2,63}", r"[({]{2}\{{20}", "(a|b)*c+", r"(\w+\.)*\w+", "a{1000}"]
)
def test_usual_patterns_are_accepted(text: str) -> None:
    """Nested repetitions and literal brackets are usual."""
    UntrustedPattern(text, text)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of re, for example for [[
@given(
    st.text("ab.*+?|()[]^{}2,\\dei<w-", max_size=12),
    st.lists(st.text("ab.-2", max_size=8), min_size=1, max_size=4),
)
@example("a{d}", ["a{d}", "a"])
@example("{d", ["{d"])
@example("[]{d]{,2}", ["{d", "]"])
def test_patterns_mean_the_same_as_in_python(text: str, names: list[str]) -> None:
    """A pattern that ``re`` refuses is refused."""
    try:
        pattern = re.compile(text, re.ASCII)
    except re.error:
        with pytest.raises(re.error):
            UntrustedPattern(text, text, re.ASCII)
        return
    ours = UntrustedPattern(text, text, re.ASCII)
    assert [ours.matches(name) for name in names] == [pattern.fullmatch(name) is not None for name in names]


def test_the_location_of_a_slow_pattern_of_classic() -> None:
    """It is a fault of the configuration."""
    plugin = f"discardingDLQBrokerPlugin: {{dropAll: false, dropOnly: 'x {SLOW}'}}"
    location, problem = fault(f"activemq: {{plugins: [{{{plugin}}}]}}")
    assert location.endswith("activemq.plugins.0.discardingDLQBrokerPlugin.dropOnly")
    assert SLOW in problem


def test_the_location_of_a_slow_pattern_of_artemis() -> None:
    """The match of an address setting becomes a regular expression, too."""
    location, _ = fault(f"artemis: {{address-settings: [{{match: '#'}}, {{match: '{SLOW}.#'}}]}}")
    assert location.endswith("artemis.address-settings.1.match")
