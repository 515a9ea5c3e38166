"""A decision takes bounded work, whatever delivery count a header holds."""

import pytest

from kafka_redelivery.topology.artemis.address_settings import AddressSettings
from kafka_redelivery.topology.classic.layers import LayeredRedelivery
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.policy.decision import Retry
from kafka_redelivery.topology.policy.entry import RetryPolicy
from tests.unit.topology.policy.test_decision import after, entry


@pytest.mark.parametrize("deliveries", [999_999_999_999, 10**19 - 1])
@pytest.mark.parametrize(
    "policy",
    [
        RedeliveryPolicy(maximum_redeliveries=-1, use_collision_avoidance=True),
        RedeliveryPolicy(
            maximum_redeliveries=-1,
            initial_redelivery_delay=10**9,
            use_exponential_back_off=True,
            back_off_multiplier=1.000_000_001,
        ),
        AddressSettings(
            max_delivery_attempts=0,
            redelivery_delay=1000,
            redelivery_delay_multiplier=2,
            max_redelivery_delay=10_000,
            redelivery_collision_avoidance_factor=0.5,
        ),
        LayeredRedelivery(RedeliveryPolicy(maximum_redeliveries=2**31 - 1), RedeliveryPolicy(maximum_redeliveries=-1)),
        LayeredRedelivery(
            RedeliveryPolicy(maximum_redeliveries=0),
            RedeliveryPolicy(maximum_redeliveries=-1, use_collision_avoidance=True),
        ),
    ],
    ids=["collisions", "slow back-off", "artemis", "many rounds", "layered collisions"],
)
def test_any_number_of_deliveries_is_decided_quickly(policy: RetryPolicy, deliveries: int) -> None:
    """Any program can write the number into a header; the work for it is bounded."""
    assert not policy.exceeded(deliveries)
    decision = after(deliveries, entry(policy))
    assert isinstance(decision, Retry)
    assert decision.delay_ms > 0
