"""Classic's client and broker redeliver in turn, with interleaved counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.classic.layers import LayeredRedelivery, Redelivery
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy

COUNTS = st.integers(0, 12)


def layered(client: int, broker: int) -> LayeredRedelivery:
    """Return both layers, with delays that end in 1 for the client and in 2 for the broker."""
    return LayeredRedelivery(
        RedeliveryPolicy(maximum_redeliveries=client, initial_redelivery_delay=101, redelivery_delay=201),
        RedeliveryPolicy(maximum_redeliveries=broker, initial_redelivery_delay=1002, redelivery_delay=2002),
    )


def test_three_and_two_make_nine() -> None:
    """The rounds have 4 + 3 + 2 deliveries; the client goes on counting from the broker's count."""
    policy = layered(3, 2)
    assert policy.max_deliveries == 9
    assert list(policy.delays_ms()) == [101, 201, 201, 1002, 201, 201, 2002, 201]


@given(COUNTS, COUNTS)
def test_it_ends_after_exactly_so_many_deliveries(client: int, broker: int) -> None:
    """The formula of the limit agrees with the delays one by one."""
    policy = layered(client, broker)
    most = policy.max_deliveries
    assert most is not None
    assert policy.exceeded(most)
    assert not policy.exceeded(most - 1)
    assert len(list(policy.delays_ms())) == most - 1


@given(COUNTS, COUNTS)
def test_the_broker_redelivers_as_often_as_its_policy_says(client: int, broker: int) -> None:
    """The number of the broker's redeliveries does not depend on the client."""
    assert sum(delay % 10 == 2 for delay in layered(client, broker).delays_ms()) == broker


@given(COUNTS)
def test_a_client_that_does_not_redeliver_leaves_the_brokers_chain(broker: int) -> None:
    """This is the configuration that the documentation of the plugin recommends."""
    policy = layered(0, broker)
    alone = policy.broker
    delays = [alone.delay_ms(redelivery, ()) for redelivery in range(1, broker + 1)]
    assert list(policy.delays_ms()) == delays
    assert policy.max_deliveries == alone.max_deliveries


def test_without_a_limit_of_the_client_the_broker_never_redelivers() -> None:
    """The client never hands over to the broker."""
    policy = layered(-1, 2)
    assert policy.max_deliveries is None
    assert policy.delay_ms(1_000_000, ()) == 201


def test_the_millionth_redelivery_of_the_broker_is_found_quickly() -> None:
    """It is computed without following all deliveries before it."""
    policy = layered(3, -1)
    assert policy.max_deliveries is None
    assert policy.delay_ms(10**6, ()) == 2002


@given(COUNTS, st.integers(1, 40), st.floats(-1, 1))
def test_each_delay_is_in_its_range(client: int, redelivery: int, draw: float) -> None:
    """Random parts included."""
    policy = LayeredRedelivery(
        RedeliveryPolicy(maximum_redeliveries=client, use_collision_avoidance=True),
        RedeliveryPolicy(maximum_redeliveries=5, use_exponential_back_off=True, use_collision_avoidance=True),
    )
    if not policy.exceeded(redelivery):
        least, most = policy.delay_range_ms(redelivery)
        assert least <= policy.delay_ms(redelivery, [draw] * 60) <= most


def simulated_hops(policy: LayeredRedelivery, number: int) -> list[Redelivery | None]:
    """Return what follows the first failed deliveries, as client and broker count them."""
    hops: list[Redelivery | None] = []
    rounds, count = 0, 0
    while len(hops) < number:
        count += 1
        if count <= policy.client.maximum_redeliveries:
            hops.append(Redelivery(policy.client, count))
        elif policy.broker.exceeded(rounds + 1):
            return hops + [None] * (number - len(hops))
        else:
            rounds += 1
            hops.append(Redelivery(policy.broker, rounds))
            count = rounds
    return hops


@given(st.integers(-5, 12).filter(lambda client: client != -1), st.integers(-5, 12))
def test_each_hop_is_the_one_of_a_simulation(client: int, broker: int) -> None:
    """The formula agrees with counting delivery by delivery, beyond the last one too."""
    policy = layered(client, broker)
    assert [policy.redelivery_after(deliveries) for deliveries in range(1, 151)] == simulated_hops(policy, 150)


@pytest.mark.parametrize("client", [10**6, 2**31 - 1])
def test_the_hop_after_very_many_rounds_is_found_quickly(client: int) -> None:
    """The number of deliveries comes from a header, which any program can write."""
    policy = layered(client, -1)
    last = policy.client.maximum_redeliveries + 1
    all_rounds = last * (last + 1) // 2
    assert policy.redelivery_after(all_rounds) == Redelivery(policy.broker, last)
    assert policy.redelivery_after(all_rounds - 1) == Redelivery(policy.broker, last - 1)
    assert policy.redelivery_after(all_rounds - 2) == Redelivery(policy.client, last - 1)
    assert policy.redelivery_after(all_rounds + 10**18) == Redelivery(policy.broker, last + 10**18)


@pytest.mark.parametrize("deliveries", [0, -1])
def test_deliveries_count_from_one(deliveries: int) -> None:
    """Nothing is redelivered before the first delivery."""
    with pytest.raises(ValueError, match=f"count from 1, got {deliveries}"):
        layered(3, 2).delay_ms(deliveries, ())
