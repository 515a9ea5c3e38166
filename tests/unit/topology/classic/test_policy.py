"""The delays of Classic's redelivery policy. The answers recorded from a broker are in tests/parity."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, pairwise, repeat
from math import inf

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kafka_redelivery.topology.classic.policy import BackOffAlgorithm, RedeliveryPolicy
from kafka_redelivery.topology.java.numbers import LONG_MAX, LONG_MIN

LONGS = st.integers(LONG_MIN, LONG_MAX)
DRAWS = st.floats(-1, 1, exclude_max=True)

ANY_POLICY = st.builds(
    RedeliveryPolicy,
    initial_redelivery_delay=LONGS | st.integers(-10, 10_000),
    redelivery_delay=LONGS | st.integers(-10, 10_000),
    use_exponential_back_off=st.booleans(),
    back_off_multiplier=st.floats(allow_nan=False) | st.floats(0, 10),
    maximum_redelivery_delay=LONGS | st.integers(-10, 10_000),
    use_collision_avoidance=st.booleans(),
    collision_avoidance_factor=st.floats(-327.68, 327.67) | st.floats(0, 1),
    algorithm=st.sampled_from(BackOffAlgorithm),
)
"""All values that the broker accepts, reasonable or not."""

GROWING_POLICY = st.builds(
    RedeliveryPolicy,
    initial_redelivery_delay=st.integers(1, 10**9),
    redelivery_delay=st.integers(0, 10**9),
    use_exponential_back_off=st.just(value=True),
    back_off_multiplier=st.floats(1, 100, exclude_min=True),
    algorithm=st.sampled_from(BackOffAlgorithm),
)
"""Policies with growing delays."""


def chain(policy: RedeliveryPolicy, length: int, draw: float = 0.0) -> list[int]:
    """Return the first delays, with the same draw for each."""
    return list(islice(policy.delays_ms(repeat(draw)), length))


class TestFixed:
    def test_the_first_delay_is_the_initial_one(self) -> None:
        """The first redelivery waits the initial delay, every later one the redelivery delay."""
        assert chain(RedeliveryPolicy(initial_redelivery_delay=250, redelivery_delay=5000), 4) == [
            250,
            5000,
            5000,
            5000,
        ]

    def test_before_5_9_the_previous_delay_was_kept(self) -> None:
        """With the older algorithm the initial delay stays, as the older articles print it."""
        policy = RedeliveryPolicy(
            initial_redelivery_delay=250, redelivery_delay=5000, algorithm=BackOffAlgorithm.ACTIVEMQ_5_8
        )
        assert chain(policy, 4) == [250, 250, 250, 250]

    @pytest.mark.parametrize("algorithm", BackOffAlgorithm)
    def test_an_initial_delay_of_zero_is_followed_by_the_redelivery_delay(self, algorithm: BackOffAlgorithm) -> None:
        """Zero is a valid delay: the first redelivery is immediate, the next waits the usual delay."""
        policy = RedeliveryPolicy(initial_redelivery_delay=0, redelivery_delay=500, algorithm=algorithm)
        assert chain(policy, 4) == [0, 500, 500, 500]
        assert chain(replace(policy, use_exponential_back_off=True), 4) == [0, 500, 2500, 12_500]

    def test_a_redelivery_delay_of_zero_is_immediate(self) -> None:
        """Zero is a valid delay."""
        assert chain(RedeliveryPolicy(redelivery_delay=0), 4) == [1000, 0, 0, 0]

    def test_the_maximum_delay_has_no_effect_without_back_off(self) -> None:
        """As in Classic, only delays of exponential back-off are capped."""
        policy = RedeliveryPolicy(redelivery_delay=5000, maximum_redelivery_delay=100)
        assert chain(policy, 3) == [1000, 5000, 5000]


class TestExponential:
    def test_each_delay_is_the_one_before_times_the_multiplier(self) -> None:
        """The usual doubling, from the initial delay on."""
        policy = RedeliveryPolicy(
            initial_redelivery_delay=250, redelivery_delay=1000, use_exponential_back_off=True, back_off_multiplier=2
        )
        assert chain(policy, 5) == [250, 500, 1000, 2000, 4000]

    def test_fractions_of_a_millisecond_are_cut(self) -> None:
        """Each delay is cut to whole milliseconds before the next is made from it."""
        policy = RedeliveryPolicy(initial_redelivery_delay=3, use_exponential_back_off=True, back_off_multiplier=1.5)
        assert chain(policy, 6) == [3, 4, 6, 9, 13, 19]

    def test_a_whole_multiplier_is_multiplied_as_a_double_too(self) -> None:
        """As in Java, where a delay of more than 53 bits loses its last digits."""
        policy = RedeliveryPolicy(
            initial_redelivery_delay=2**53 + 1, use_exponential_back_off=True, back_off_multiplier=2
        )
        assert chain(policy, 2) == [2**53 + 1, 2**54]

    def test_the_maximum_caps(self) -> None:
        """A delay above the maximum becomes the maximum, as do all later ones."""
        policy = RedeliveryPolicy(use_exponential_back_off=True, maximum_redelivery_delay=20_000)
        assert chain(policy, 5) == [1000, 5000, 20_000, 20_000, 20_000]

    def test_a_maximum_below_the_redelivery_delay_gives_way_to_it(self) -> None:
        """Classic takes the larger of the two."""
        policy = RedeliveryPolicy(redelivery_delay=3000, use_exponential_back_off=True, maximum_redelivery_delay=100)
        assert chain(policy, 3) == [1000, 3000, 3000]

    def test_a_maximum_of_zero_is_a_maximum(self) -> None:
        """Only -1 means "no maximum"."""
        policy = RedeliveryPolicy(redelivery_delay=0, use_exponential_back_off=True, maximum_redelivery_delay=0)
        assert chain(policy, 3) == [1000, 0, 0]

    @pytest.mark.parametrize("multiplier", [1, 0.5, 0, -2])
    def test_a_multiplier_that_does_not_grow_is_no_back_off(self, multiplier: float) -> None:
        """Up to 1 the policy behaves as a fixed one."""
        policy = RedeliveryPolicy(redelivery_delay=700, use_exponential_back_off=True, back_off_multiplier=multiplier)
        assert chain(policy, 3) == [1000, 700, 700]

    @given(GROWING_POLICY)
    def test_delays_never_shrink(self, policy: RedeliveryPolicy) -> None:
        """Without a cap each delay is at least the one before."""
        assert all(earlier <= later for earlier, later in pairwise(chain(policy, 100)))

    @given(GROWING_POLICY, st.integers(0, 10**12))
    def test_delays_never_pass_the_cap(self, policy: RedeliveryPolicy, maximum: int) -> None:
        """After the first, no delay is above the maximum, or above the redelivery delay where that is larger."""
        capped = replace(policy, maximum_redelivery_delay=maximum)
        assert max(chain(capped, 100)[1:]) <= max(maximum, policy.redelivery_delay)

    @given(GROWING_POLICY, st.integers(0, 10**12))
    def test_delays_never_shrink_below_the_cap_either(self, policy: RedeliveryPolicy, maximum: int) -> None:
        """A cap above the initial delay does not make the chain go down."""
        assume(maximum >= policy.initial_redelivery_delay)
        capped = replace(policy, maximum_redelivery_delay=maximum)
        assert all(earlier <= later for earlier, later in pairwise(chain(capped, 100)))

    @pytest.mark.parametrize("multiplier", [1.5, 5.0, 1e300, inf])
    def test_delays_saturate(self, multiplier: float) -> None:
        """A delay saturates at 64 bits instead of becoming negative."""
        policy = RedeliveryPolicy(use_exponential_back_off=True, back_off_multiplier=multiplier)
        assert chain(policy, 200)[-1] == LONG_MAX

    def test_negative_delays_of_the_older_algorithm_saturate_too(self) -> None:
        """It multiplies negative delays, which saturate at the lower limit."""
        policy = RedeliveryPolicy(
            initial_redelivery_delay=-1, use_exponential_back_off=True, algorithm=BackOffAlgorithm.ACTIVEMQ_5_8
        )
        assert chain(policy, 200)[-1] == LONG_MIN


class TestCollisionAvoidance:
    POLICY = RedeliveryPolicy(
        use_exponential_back_off=True,
        back_off_multiplier=2,
        use_collision_avoidance=True,
        collision_avoidance_factor=0.5,
    )

    def test_randomness_compounds(self) -> None:
        """Each delay starts from the randomised one before it: 2 x 1.25 = 2.5 times each step."""
        assert chain(self.POLICY, 4, draw=0.5) == [1000, 2500, 6250, 15_625]

    def test_it_comes_after_the_cap(self) -> None:
        """A drawn delay may lie above the maximum by the factor."""
        capped = replace(self.POLICY, maximum_redelivery_delay=2000)
        assert chain(capped, 3, draw=0.5) == [1000, 2500, 2500]

    def test_one_draw_for_each_redelivery_after_the_first(self) -> None:
        """The first delay costs no draw, and the chain ends when the draws do."""
        assert list(self.POLICY.delays_ms([0.0, 0.0])) == [1000, 2000, 4000]
        assert list(self.POLICY.delays_ms([])) == [1000]

    def test_a_policy_without_it_draws_nothing(self) -> None:
        """The delays of a policy without collision avoidance use no draws."""

        def refuse() -> Iterator[float]:
            pytest.fail("a draw was taken")
            yield 0.0

        assert list(islice(RedeliveryPolicy().delays_ms(refuse()), 3)) == [1000, 1000, 1000]

    @given(st.integers(0, 10**9), st.floats(0, 1), DRAWS)
    def test_a_draw_moves_the_delay_by_the_factor_at_most(self, delay: int, factor: float, draw: float) -> None:
        """15 % means between 85 % and 115 %, cut to whole milliseconds."""
        policy = RedeliveryPolicy(
            redelivery_delay=delay, use_collision_avoidance=True, collision_avoidance_factor=factor
        )
        _, drawn = chain(policy, 2, draw)
        assert delay * (1 - factor) - 1 <= drawn <= delay * (1 + factor) + 1

    def test_a_draw_of_zero_changes_nothing(self) -> None:
        """The middle of the range is the delay itself, even with a factor beyond all bounds."""
        assert chain(self.POLICY, 3, draw=0.0) == [1000, 2000, 4000]
        assert chain(replace(self.POLICY, collision_avoidance_factor=0.0), 3, draw=0.9) == [1000, 2000, 4000]


class TestOneDelay:
    @given(ANY_POLICY, st.integers(1, 40), st.lists(DRAWS, min_size=39, max_size=39))
    def test_it_is_the_one_of_the_chain(self, policy: RedeliveryPolicy, redelivery: int, draws: list[float]) -> None:
        """A single delay equals that of the whole chain; a negative one becomes 0."""
        expected = next(islice(policy.delays_ms(draws), redelivery - 1, None))
        assert policy.delay_ms(redelivery, draws) == max(0, expected)

    @given(ANY_POLICY, st.integers(1, 40), DRAWS)
    def test_it_is_a_number_of_64_bits(self, policy: RedeliveryPolicy, redelivery: int, draw: float) -> None:
        """Every policy that the broker accepts gives such a delay."""
        delay = policy.delay_ms(redelivery, repeat(draw))
        assert isinstance(delay, int)
        assert 0 <= delay <= LONG_MAX

    @given(ANY_POLICY, st.integers(1, 40), DRAWS)
    def test_it_is_the_same_each_time(self, policy: RedeliveryPolicy, redelivery: int, draw: float) -> None:
        """The delay only depends on the number of the redelivery."""
        assert policy.delay_ms(redelivery, repeat(draw)) == policy.delay_ms(redelivery, repeat(draw))

    @pytest.mark.parametrize("exponential", [False, True])
    def test_the_billionth_costs_no_more_than_the_hundredth(self, exponential: bool) -> None:  # noqa: FBT001
        """The chain is only followed until it stays the same."""
        policy = RedeliveryPolicy(use_exponential_back_off=exponential, maximum_redelivery_delay=60_000)
        assert policy.delay_ms(10**9, ()) == policy.delay_ms(100, ())

    @pytest.mark.parametrize("redelivery", [1001, 999_999_999_999])
    @pytest.mark.parametrize("algorithm", BackOffAlgorithm)
    @pytest.mark.parametrize("multiplier", [1.0, 1.000001, 5.0])
    @pytest.mark.parametrize("avoid_collisions", [False, True])
    def test_the_number_of_steps_is_bounded(
        self, redelivery: int, algorithm: BackOffAlgorithm, multiplier: float, *, avoid_collisions: bool
    ) -> None:
        """Later redeliveries have the delay of the thousandth: any program can write the number into a header."""
        policy = RedeliveryPolicy(
            maximum_redeliveries=-1,
            initial_redelivery_delay=10**7,
            use_exponential_back_off=True,
            back_off_multiplier=multiplier,
            use_collision_avoidance=avoid_collisions,
            algorithm=algorithm,
        )
        thousandth = chain(policy, 1000, 0.1)[-1]
        taken = iter(repeat(0.1, 999))
        assert policy.delay_ms(redelivery, taken) == thousandth
        assert policy.delay_range_ms(redelivery) == policy.delay_range_ms(1000)
        if not avoid_collisions:
            assert policy.nominal_delay_ms(redelivery) == thousandth

    @pytest.mark.parametrize("redelivery", [0, -1])
    def test_redeliveries_count_from_one(self, redelivery: int) -> None:
        """There is no redelivery number 0."""
        with pytest.raises(ValueError, match=f"count from 1, got {redelivery}"):
            RedeliveryPolicy().delay_ms(redelivery, ())

    def test_too_few_draws_are_an_error(self) -> None:
        """A randomised delay needs all of its draws."""
        policy = RedeliveryPolicy(use_collision_avoidance=True)
        assert policy.delay_ms(1, ()) == 1000
        with pytest.raises(ValueError, match="redelivery 3 needs 2 draws"):
            policy.delay_ms(3, [0.5])

    def test_not_a_number_is_a_delay_of_zero(self) -> None:
        """Infinity times zero is Java's NaN, which becomes 0 as a long."""
        policy = RedeliveryPolicy(use_collision_avoidance=True, collision_avoidance_factor=inf)
        assert policy.delay_ms(2, [0.0]) == 0
