"""When finished records are acknowledged, and the effect of each trigger."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.policy.acknowledgement import (
    AcknowledgementMode,
    Dialect,
    Effect,
    LazyAcknowledgement,
    Trigger,
    acknowledge_now,
    effect,
)

MODES = st.sampled_from(AcknowledgementMode)


@given(MODES, st.sampled_from(Trigger), st.sampled_from(Dialect))
def test_every_trigger_has_an_effect_in_every_mode(
    mode: AcknowledgementMode, trigger: Trigger, dialect: Dialect
) -> None:
    """A record that is limited or delayed is redelivered."""
    found = effect(mode, trigger, dialect)
    assert isinstance(found, Effect)
    assert found.redelivered or not (found.limited or found.delayed)
    assert found.kept or not found.redelivered


@given(MODES, st.sampled_from([Trigger.ROLLBACK, Trigger.RAISED, Trigger.CLOSED]))
def test_artemis_counts_in_every_mode(mode: AcknowledgementMode, trigger: Trigger) -> None:
    """The broker counts deliveries, rather than the client."""
    assert effect(mode, trigger, Dialect.ARTEMIS).limited


def test_classic_redelivers_records_of_closed_client_sessions_without_limit() -> None:
    """Such a record never becomes a dead letter."""
    assert effect(AcknowledgementMode.CLIENT, Trigger.CLOSED) == Effect(redelivered=True)


@pytest.mark.parametrize(
    ("finished", "elapsed_ms", "now"), [(64, 0, False), (65, 0, True), (1, 299, False), (1, 300, True)]
)
def test_optimised_acknowledgement(finished: int, elapsed_ms: int, now: bool) -> None:  # noqa: FBT001 - a row of a table
    """At 65 % of the prefetch, or after the time limit."""
    mode = AcknowledgementMode.AUTO
    assert acknowledge_now(mode, finished, 100, elapsed_ms, optimize=True) is now
    assert acknowledge_now(mode, finished, 100, elapsed_ms)


def test_without_a_time_limit_only_the_share_counts() -> None:
    """0 means no limit, rather than immediately."""
    assert not acknowledge_now(AcknowledgementMode.AUTO, 1, 100, 10**9, optimize=True, optimize_timeout_ms=0)


@pytest.mark.parametrize(("finished", "now"), [(49, False), (50, True)])
def test_lazy_acknowledgement(finished: int, now: bool) -> None:  # noqa: FBT001 - a row of a table
    """At half of the prefetch."""
    assert acknowledge_now(AcknowledgementMode.DUPS_OK, finished, 100, 0) is now


@pytest.mark.parametrize("mode", ["transacted", "client", "individual"])
def test_some_modes_never_acknowledge_by_themselves(mode: str) -> None:
    """The commit or the handler does."""
    assert not acknowledge_now(AcknowledgementMode(mode), 10**6, 1, 10**6)


@given(
    st.sampled_from([AcknowledgementMode.AUTO, AcknowledgementMode.DUPS_OK]),
    st.integers(0, 10**4),
    st.integers(0, 10**4),
    st.integers(0, 10**6),
    st.integers(0, 10**5),
)
def test_lazy_acknowledgement_comes_to_its_end(
    mode: AcknowledgementMode, prefetch: int, finished: int, elapsed_ms: int, timeout_ms: int
) -> None:
    """With a whole prefetch finished, or after what is left of the time; more of either never undoes it."""
    lazy = LazyAcknowledgement(mode, prefetch, timeout_ms)
    assert lazy.now(prefetch, 0)
    left = lazy.left_ms(elapsed_ms)
    assert (left is None) == (timeout_ms == 0)
    assert left is None or lazy.now(0, elapsed_ms + left)
    assert not lazy.now(finished, elapsed_ms) or lazy.now(finished + 1, elapsed_ms + 1)
