"""The tiers that a group needs, and how many of them a record passes through."""

from dataclasses import replace
from itertools import islice, repeat
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.classic.layers import LayeredRedelivery
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.errors import NoTierError
from kafka_redelivery.topology.policy.entry import PolicyEntry
from kafka_redelivery.topology.topics.tiers import (
    LONGEST_LADDER_TIER_MS,
    MAX_EXACT_TIERS,
    TierSet,
    exact_delays,
    longest_delay,
    tier_set,
    tiers_to_fill,
)

DAY = 86_400_000


def policies(shortest: int) -> st.SearchStrategy[RedeliveryPolicy]:
    """Return policies with known delays: immediate, or from ``shortest`` to one day."""
    delay = st.integers(-5, 0) | st.integers(shortest, 100_000)
    return st.builds(
        RedeliveryPolicy,
        maximum_redeliveries=st.integers(-1, 12),
        initial_redelivery_delay=delay,
        redelivery_delay=delay,
        use_exponential_back_off=st.booleans(),
        back_off_multiplier=st.floats(2, 10),
        maximum_redelivery_delay=st.integers(shortest, DAY),
    )


def randomised(policy: st.SearchStrategy[RedeliveryPolicy]) -> st.SearchStrategy[RedeliveryPolicy]:
    """The same with collision avoidance."""
    factor = st.floats(-0.5, 0.5)
    return st.builds(replace, policy, use_collision_avoidance=st.just(value=True), collision_avoidance_factor=factor)


POLICIES = policies(shortest=1)
RANDOM_POLICIES = randomised(POLICIES)


def entry(policy: RedeliveryPolicy, maximum_handler_delay: int | None = None) -> PolicyEntry:
    """An entry with Classic's dead-letter strategy."""
    return PolicyEntry(redelivery_policy=policy, maximum_handler_delay=maximum_handler_delay)


def way(tiers: TierSet, delay: int) -> list[int | None]:
    """The tiers that a record with this delay goes through, released in each at the first possible moment.

    It leaves a tier when it was there for the tier's delay, or when it is due, if that is sooner; the mixed topic
    (``None``) when it is due.
    """
    passed: list[int | None] = []
    remaining = delay
    while remaining > 0:
        tier = tiers.tier_for(remaining)
        passed.append(tier)
        remaining -= remaining if tier is None else min(tier, remaining)
    return passed


class TestWhichTiers:
    def test_classics_default_needs_one(self) -> None:
        """One second, six times over, is one topic for the whole group."""
        assert tier_set([PolicyEntry()]) == TierSet((1000,), mixed=False)

    def test_back_off_needs_one_for_each_delay(self) -> None:
        """Six redeliveries, six delays."""
        policy = RedeliveryPolicy(use_exponential_back_off=True, back_off_multiplier=2)
        assert tier_set([entry(policy)]) == TierSet((1000, 2000, 4000, 8000, 16_000, 32_000), mixed=False)

    def test_a_cap_ends_the_chain(self) -> None:
        """Without a maximum of redeliveries a capped policy still has few delays."""
        policy = RedeliveryPolicy(
            maximum_redeliveries=-1, use_exponential_back_off=True, maximum_redelivery_delay=60_000
        )
        assert tier_set([entry(policy)]) == TierSet((1000, 5000, 25_000, 60_000), mixed=False)

    def test_destinations_share_their_tiers(self) -> None:
        """A tier is the group's, not the topic's."""
        slow = RedeliveryPolicy(redelivery_delay=5000)
        assert tier_set([PolicyEntry(), entry(slow), PolicyEntry()]) == TierSet((1000, 5000), mixed=False)

    @pytest.mark.parametrize(
        "policy",
        [
            pytest.param(RedeliveryPolicy(maximum_redeliveries=0), id="no redeliveries"),
            pytest.param(RedeliveryPolicy(maximum_redeliveries=-5), id="not even a delivery"),
            pytest.param(RedeliveryPolicy(initial_redelivery_delay=0, redelivery_delay=0), id="at once"),
            pytest.param(RedeliveryPolicy(initial_redelivery_delay=-1, redelivery_delay=-1), id="negative is at once"),
        ],
    )
    def test_what_never_waits_needs_none(self, policy: RedeliveryPolicy) -> None:
        """A delay of zero or less needs no topic."""
        assert tier_set([entry(policy)]) == TierSet((), mixed=False)

    def test_no_destinations_need_none(self) -> None:
        """Nothing configured, nothing needed."""
        assert tier_set([]) == TierSet((), mixed=False)

    def test_collision_avoidance_needs_the_ladder(self) -> None:
        """Random delays need tiers of ratio 2 up to the longest delay, and the mixed topic."""
        policy = RedeliveryPolicy(redelivery_delay=10_000, use_collision_avoidance=True)
        assert tier_set([entry(policy)]) == TierSet((1000, 2000, 4000, 8000), mixed=True)

    def test_a_handlers_own_delay_adds_the_ladder(self) -> None:
        """The policy's own delays keep their tiers."""
        policy = RedeliveryPolicy(redelivery_delay=1500)
        assert tier_set([entry(policy, maximum_handler_delay=4000)]) == TierSet((1000, 1500, 2000, 4000), mixed=True)

    def test_a_handlers_delay_below_the_smallest_rung_needs_only_the_mixed_topic(self) -> None:
        """There is no tier for what the mixed topic can do."""
        policy = RedeliveryPolicy(maximum_redeliveries=0)
        assert tier_set([entry(policy, maximum_handler_delay=500)]) == TierSet((), mixed=True)

    def test_a_handler_that_may_only_ask_for_a_delay_of_zero_needs_no_topic(self) -> None:
        """A maximum of 0 is allowed and adds no topic."""
        assert tier_set([entry(RedeliveryPolicy(), maximum_handler_delay=0)]) == TierSet((1000,), mixed=False)

    def test_too_many_delays_get_the_ladder(self) -> None:
        """Seventeen topics for one policy would be too many: nine tiers of the ladder cover the same span."""
        policy = RedeliveryPolicy(
            maximum_redeliveries=17, use_exponential_back_off=True, back_off_multiplier=1.5, maximum_redelivery_delay=-1
        )
        tiers = tier_set([entry(policy)])
        assert tiers == TierSet(tuple(1000 * 2**step for step in range(10)), mixed=True)

    def test_too_many_delays_of_all_destinations_together_get_the_ladder(self) -> None:
        """The limit is the group's."""
        policies = [RedeliveryPolicy(redelivery_delay=1000 + seconds) for seconds in range(1, MAX_EXACT_TIERS + 1)]
        assert tier_set(entry(policy) for policy in policies) == TierSet((1000,), mixed=True)
        assert len(tier_set(entry(policy) for policy in policies[:-1]).delays_ms) == MAX_EXACT_TIERS

    @given(
        st.lists(st.builds(entry, POLICIES | RANDOM_POLICIES, maximum_handler_delay=st.none() | st.integers(0, 10**12)))
    )
    def test_tiers_are_few_ascending_and_positive(self, entries: list[PolicyEntry]) -> None:
        """However much is configured: the exact tiers and seventeen tiers of the ladder at most."""
        tiers = tier_set(entries)
        assert list(tiers.delays_ms) == sorted({delay for delay in tiers.delays_ms if delay > 0})
        assert len(tiers.delays_ms) <= MAX_EXACT_TIERS + 17


class TestTiersToFill:
    LADDER = TierSet((1000, 2000, 4000, 10_000), mixed=True)
    EXACT = TierSet((10_000,), mixed=False)

    @pytest.mark.parametrize(
        ("needed", "existing", "filled"),
        [
            pytest.param(LADDER, TierSet((1000, 2000, 4000, 5000, 10_000), mixed=True), LADDER, id="one is retired"),
            pytest.param(EXACT, TierSet((5000, 10_000), mixed=False), EXACT, id="one of exact tiers is retired"),
            pytest.param(EXACT, LADDER, LADDER, id="the ladder is retired"),
            pytest.param(
                LADDER,
                TierSet((1000, 2000, 4000, 5000, 10_000, 3_600_000), mixed=True),
                TierSet((1000, 2000, 4000, 10_000, 3_600_000), mixed=True),
                id="the ladder has become shorter",
            ),
            pytest.param(EXACT, TierSet((5000,), mixed=False), TierSet((5000,), mixed=False), id="none is needed"),
            pytest.param(TierSet((), mixed=False), LADDER, LADDER, id="no tiers are needed"),
            pytest.param(
                LADDER, TierSet((1000, 5000), mixed=False), TierSet((1000,), mixed=False), id="no mixed topic"
            ),
            pytest.param(LADDER, TierSet((5000,), mixed=True), TierSet((), mixed=True), id="only the mixed topic"),
        ],
    )
    def test_a_retired_tier_becomes_empty(self, needed: TierSet, existing: TierSet, filled: TierSet) -> None:
        """But records never have nowhere to go, and those of a ladder stay on it."""
        assert tiers_to_fill(needed, existing) == filled


class TestTierFor:
    LADDER = TierSet((1000, 2000, 4000, 8000), mixed=True)
    EXACT = TierSet((1000, 5000), mixed=False)

    @pytest.mark.parametrize(
        ("remaining", "tier"),
        [(1, None), (999, None), (1000, 1000), (1999, 1000), (2000, 2000), (7999, 4000), (8000, 8000), (10**9, 8000)],
    )
    def test_on_a_ladder_it_is_the_largest_tier_not_above_what_remains(self, remaining: int, tier: int | None) -> None:
        """So that a record is never released late; what is below the smallest waits in the mixed topic."""
        assert self.LADDER.tier_for(remaining) == tier

    @pytest.mark.parametrize(("remaining", "tier"), [(1000, 1000), (5000, 5000)])
    def test_an_exact_delay_has_its_tier(self, remaining: int, tier: int) -> None:
        """The usual case: one hop, released when due."""
        assert self.EXACT.tier_for(remaining) == tier

    @pytest.mark.parametrize(("remaining", "tier"), [(1, 1000), (1001, 5000), (4999, 5000), (5001, 5000)])
    def test_a_delay_of_an_earlier_policy_takes_the_next_longer_tier(self, remaining: int, tier: int) -> None:
        """It leaves that tier when it is due; the longest tier takes what is longer than all, more than once."""
        assert self.EXACT.tier_for(remaining) == tier

    @pytest.mark.parametrize("remaining", [0, -1])
    def test_a_record_that_is_due_has_no_tier(self, remaining: int) -> None:
        """Such a record belongs into the ready topic."""
        with pytest.raises(ValueError, match=f"nothing remains to be waited for: {remaining} ms"):
            self.LADDER.tier_for(remaining)

    def test_a_group_without_tiers_says_so(self) -> None:
        """They may have been deleted while a record waits."""
        with pytest.raises(NoTierError):
            TierSet((), mixed=False).tier_for(1000)


class TestHops:
    @given(st.lists(POLICIES.map(entry), min_size=1, max_size=3), st.integers(1, 30))
    def test_every_delay_of_a_fixed_policy_has_its_own_tier(self, entries: list[PolicyEntry], redelivery: int) -> None:
        """One hop for each redelivery that may happen, as long as the delays are few enough."""
        tiers = tier_set(entries)
        for policy in (entry.redelivery_policy for entry in entries):
            delay = policy.delay_ms(redelivery, ())
            if delay > 0 and not tiers.mixed and not policy.exceeded(redelivery):
                assert way(tiers, delay) == [delay]

    @given(
        st.lists(
            st.builds(entry, POLICIES | RANDOM_POLICIES, maximum_handler_delay=st.integers(0, DAY)),
            min_size=1,
            max_size=3,
        ),
        st.integers(1, 30),
        st.floats(-1, 1, exclude_max=True),
        st.integers(1, DAY),
    )
    def test_a_delay_between_tiers_takes_few_hops(
        self, entries: list[PolicyEntry], redelivery: int, draw: float, asked: int
    ) -> None:
        """At most 2 + log2(delay / smallest tier), be it the policy's delay or the handler's own."""
        tiers = tier_set(entries)
        for configured in entries:
            policy = configured.redelivery_policy
            wanted = {min(asked, configured.maximum_handler_delay or 0)}
            if not policy.exceeded(redelivery):
                wanted.add(policy.delay_ms(redelivery, repeat(draw)))
            for delay in wanted - {0}:
                smallest = min(tiers.delays_ms, default=delay)
                assert len(way(tiers, delay)) <= 2 + max(0, log2(delay / smallest))

    def test_a_short_tier_is_not_taken_for_the_rest_of_a_long_delay(self) -> None:
        """What remains below the ladder waits in the mixed topic, though a policy has a tier of 10 ms."""
        tiers = tier_set([entry(RedeliveryPolicy(redelivery_delay=10), maximum_handler_delay=60_000)])
        assert way(tiers, 10) == [10]
        assert way(tiers, 999) == [None]
        assert way(tiers, 3999) == [2000, 1000, None]

    def test_a_day_takes_at_most_eighteen_hops(self) -> None:
        """The worst case of the whole ladder."""
        tiers = tier_set([entry(RedeliveryPolicy(maximum_redeliveries=0), maximum_handler_delay=DAY)])
        assert max(len(way(tiers, delay)) for delay in range(1, DAY, 9973)) <= 18
        assert len(way(tiers, 2**17 * 1000 - 1)) == 18

    @given(st.integers(1, 10**12))
    def test_what_waits_longer_than_the_longest_tier_takes_that_one_again_and_again(self, delay: int) -> None:
        """It costs a hop for each day, and the rest of the ladder once."""
        tiers = tier_set([entry(RedeliveryPolicy(maximum_redeliveries=0), maximum_handler_delay=10**12)])
        assert len(way(tiers, delay)) <= delay // tiers.delays_ms[-1] + 18

    @given(st.lists(st.integers(1, DAY), max_size=5), st.integers(1, DAY))
    def test_no_tier_on_the_way_is_longer_than_what_remains(self, delays: list[int], delay: int) -> None:
        """On a ladder no hop can make a record late, whatever other tiers there are."""
        tiers = TierSet(tuple(sorted({1000, 2000, *delays})), mixed=True)
        remaining = delay
        for tier in way(tiers, delay):
            assert tier is None or tier <= remaining
            remaining -= tier or 0


class TestLongestDelay:
    @given(RANDOM_POLICIES, st.integers(1, 12), st.floats(-1, 1, exclude_max=True))
    def test_no_draw_passes_it(self, policy: RedeliveryPolicy, redelivery: int, draw: float) -> None:
        """The ladder reaches as far as the policy can."""
        if not policy.exceeded(redelivery):
            delay = policy.delay_ms(redelivery, repeat(draw))
            assert min(delay, LONGEST_LADDER_TIER_MS) <= longest_delay(policy)

    @pytest.mark.parametrize(
        ("policy", "draws"),
        [
            pytest.param(
                RedeliveryPolicy(
                    initial_redelivery_delay=1,
                    redelivery_delay=100_000,
                    use_exponential_back_off=True,
                    back_off_multiplier=2,
                    use_collision_avoidance=True,
                    collision_avoidance_factor=0.6,
                ),
                [-0.99, 0.9],
                id="a delay drawn to 0 is followed by the redelivery delay",
            ),
            pytest.param(
                RedeliveryPolicy(
                    initial_redelivery_delay=-1,
                    redelivery_delay=-1000,
                    use_collision_avoidance=True,
                    collision_avoidance_factor=1.5,
                ),
                [-0.99, -0.99],
                id="a negative delay drawn to the other side",
            ),
        ],
    )
    def test_no_way_to_a_long_delay_is_overlooked(self, policy: RedeliveryPolicy, draws: list[float]) -> None:
        """Small draws can lead to larger delays than large ones."""
        assert policy.delay_ms(3, draws) <= longest_delay(policy)

    def test_it_is_reached_by_the_largest_draws(self) -> None:
        """2 x 1.5 times each step: the ladder is not longer than needed either."""
        policy = RedeliveryPolicy(
            maximum_redeliveries=4,
            use_exponential_back_off=True,
            back_off_multiplier=2,
            use_collision_avoidance=True,
            collision_avoidance_factor=0.5,
        )
        assert longest_delay(policy) == 27_000

    def test_it_is_at_most_a_day(self) -> None:
        """What waits longer takes the longest tier more than once."""
        policy = RedeliveryPolicy(redelivery_delay=10**15, use_collision_avoidance=True)
        assert longest_delay(policy) == LONGEST_LADDER_TIER_MS


class TestExactDelays:
    def test_of_two_layers_each_has_its_delays(self) -> None:
        """The broker's first redelivery may come after hundreds of the client."""
        client = RedeliveryPolicy(maximum_redeliveries=240, initial_redelivery_delay=15_000, redelivery_delay=15_000)
        broker = RedeliveryPolicy(maximum_redeliveries=10, initial_redelivery_delay=300_000, redelivery_delay=300_000)
        policy = LayeredRedelivery(client, broker)
        assert policy.delay_ms(241, ()) == 300_000
        assert exact_delays(policy) == {15_000, 300_000}
        assert exact_delays(replace(policy, broker=replace(broker, maximum_redeliveries=0))) == {15_000}

    def test_a_client_without_a_limit_needs_no_tier_of_the_broker(self) -> None:
        """It never hands over."""
        client = RedeliveryPolicy(maximum_redeliveries=-1)
        assert exact_delays(LayeredRedelivery(client, RedeliveryPolicy(initial_redelivery_delay=300_000))) == {1000}

    @given(POLICIES, POLICIES)
    def test_no_delay_of_two_layers_is_overlooked(self, client: RedeliveryPolicy, broker: RedeliveryPolicy) -> None:
        """And none is added that cannot happen."""
        policy = LayeredRedelivery(client, broker)
        found = exact_delays(policy)
        if found is not None:
            assert found == {delay for delay in islice(policy.delays_ms(), 500) if delay > 0}

    def test_only_delays_that_can_happen(self) -> None:
        """The chain ends with the last redelivery."""
        policy = RedeliveryPolicy(maximum_redeliveries=2, use_exponential_back_off=True)
        assert exact_delays(policy) == {1000, 5000}

    def test_random_ones_are_not_known(self) -> None:
        """Unless the factor leaves no room."""
        policy = RedeliveryPolicy(use_collision_avoidance=True)
        assert exact_delays(policy) is None
        assert exact_delays(replace(policy, collision_avoidance_factor=0.0)) == {1000}

    def test_billions_of_redeliveries_cost_no_more_than_ten(self) -> None:
        """The chain is only followed until it stays the same."""
        assert exact_delays(RedeliveryPolicy(maximum_redeliveries=2**31 - 1, initial_redelivery_delay=0)) == {1000}

    def test_an_endless_growing_chain_has_too_many(self) -> None:
        """It is found out without following it to its end."""
        policy = RedeliveryPolicy(
            maximum_redeliveries=-1, use_exponential_back_off=True, back_off_multiplier=1.01, redelivery_delay=1000
        )
        assert exact_delays(policy) is None
