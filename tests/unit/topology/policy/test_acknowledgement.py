"""When finished records are acknowledged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode, LazyAcknowledgement


@pytest.mark.parametrize(
    ("finished", "elapsed_ms", "now"), [(64, 0, False), (65, 0, True), (1, 299, False), (1, 300, True)]
)
def test_optimised_acknowledgement(finished: int, elapsed_ms: int, now: bool) -> None:  # noqa: FBT001 - a row of a table
    """At 65 % of the prefetch, or after the time limit."""
    assert LazyAcknowledgement(AcknowledgementMode.AUTO, 100, 300).now(finished, elapsed_ms) is now


def test_without_a_time_limit_only_the_share_counts() -> None:
    """0 means no limit, rather than immediately."""
    assert not LazyAcknowledgement(AcknowledgementMode.AUTO, 100, 0).now(1, 10**9)


@pytest.mark.parametrize(("finished", "now"), [(49, False), (50, True)])
def test_lazy_acknowledgement(finished: int, now: bool) -> None:  # noqa: FBT001 - a row of a table
    """At half of the prefetch."""
    assert LazyAcknowledgement(AcknowledgementMode.DUPS_OK, 100, 300).now(finished, 0) is now


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
    assert left == (max(0, timeout_ms - elapsed_ms) if timeout_ms else None)
    assert left is None or lazy.now(0, elapsed_ms + left)
    assert not lazy.now(finished, elapsed_ms) or lazy.now(finished + 1, elapsed_ms + 1)
