"""Whether brokers know the consumer protocol is read from the client's log about them."""

import pytest

from kafka_redelivery.transport.admin.cluster_admin import knows_consumer_protocol

FROM = "APIVERSION [rdkafka#producer-1] [thrd:kafka:9092/1]: kafka:9092/1:"
BROKER = f"{FROM} Broker API support:"
KNOWS, OLD = (f"{FROM}   ApiKey ConsumerGroupHeartbeat (68) Versions 0..{version}" for version in (1, 0))


@pytest.mark.parametrize(
    ("lines", "known"),
    [
        pytest.param([BROKER, KNOWS], True, id="4.0"),
        pytest.param([BROKER, OLD], False, id="3.9"),
        pytest.param([BROKER], False, id="3.6"),
        pytest.param([BROKER, KNOWS, BROKER], False, id="one of two"),
        pytest.param(["FAIL [rdkafka#producer-1]"], None, id="no answer"),
    ],
)
def test_each_broker_has_to_know_it(lines: list[str], *, known: bool | None) -> None:
    """One that does not could be the coordinator."""
    assert knows_consumer_protocol(lines) is known
