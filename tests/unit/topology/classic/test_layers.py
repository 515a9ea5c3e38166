"""Client and broker redeliver one after the other, and their counts interleave."""

from hypothesis import given
from hypothesis import strategies as st

from topology.policy import LayeredRedelivery, RedeliveryPolicy
from topology.redelivery import UNLIMITED, delay_range, fixed_delays, most_deliveries, redelivery_delay

COUNTS = st.integers(0, 12)


def layered(client: int, broker: int) -> LayeredRedelivery:
    """Both, with delays that tell them apart: the client's end in 1, the broker's in 2."""
    return LayeredRedelivery(
        RedeliveryPolicy(maximum_redeliveries=client, initial_redelivery_delay=101, redelivery_delay=201),
        RedeliveryPolicy(maximum_redeliveries=broker, initial_redelivery_delay=1002, redelivery_delay=2002),
    )


def test_three_and_two_make_nine() -> None:
    """4 + 3 + 2 deliveries; the client's chain goes on where the broker's count is."""
    policy = layered(3, 2)
    assert most_deliveries(policy) == 9
    assert list(fixed_delays(policy)) == [101, 201, 201, 1002, 201, 201, 2002, 201]


@given(COUNTS, COUNTS)
def test_it_ends_after_exactly_so_many_deliveries(client: int, broker: int) -> None:
    """The formula and the walk agree."""
    policy = layered(client, broker)
    most = most_deliveries(policy)
    assert policy.exceeded(most)
    assert not policy.exceeded(most - 1)
    assert len(list(fixed_delays(policy))) == most - 1


@given(COUNTS, COUNTS)
def test_the_broker_redelivers_as_often_as_its_policy_says(client: int, broker: int) -> None:
    """Whatever the client does in between."""
    assert sum(delay % 10 == 2 for delay in fixed_delays(layered(client, broker))) == broker


@given(COUNTS)
def test_a_client_that_does_not_redeliver_leaves_the_brokers_chain(broker: int) -> None:
    """As everybody who uses the plugin is told to have it."""
    policy = layered(0, broker)
    alone = policy.broker
    delays = [redelivery_delay(alone, redelivery, ()) for redelivery in range(1, broker + 1)]
    assert list(fixed_delays(policy)) == delays
    assert most_deliveries(policy) == most_deliveries(alone)


def test_without_a_limit_of_the_client_the_broker_is_never_asked() -> None:
    """It never gives up."""
    policy = layered(-1, 2)
    assert most_deliveries(policy) == UNLIMITED
    assert redelivery_delay(policy, 1_000_000, ()) == 201


def test_a_million_redeliveries_by_the_broker_are_found_at_once() -> None:
    """Not by walking through all of them."""
    policy = layered(3, -1)
    assert most_deliveries(policy) == UNLIMITED
    assert redelivery_delay(policy, 10**6, ()) == 2002


@given(COUNTS, st.integers(1, 40), st.floats(-1, 1))
def test_each_delay_is_in_its_range(client: int, redelivery: int, draw: float) -> None:
    """Random parts included."""
    policy = LayeredRedelivery(
        RedeliveryPolicy(maximum_redeliveries=client, use_collision_avoidance=True),
        RedeliveryPolicy(maximum_redeliveries=5, use_exponential_back_off=True, use_collision_avoidance=True),
    )
    if not policy.exceeded(redelivery):
        least, most = delay_range(policy, redelivery)
        assert least <= redelivery_delay(policy, redelivery, [draw] * 60) <= most
