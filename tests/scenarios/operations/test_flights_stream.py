"""The steady feed of the demo creates its topics once, sends flights at their rate and late planes late."""

import threading

import pytest

from examples.flights import data
from examples.flights.scenario import scenario
from examples.flights.stream import feed, prepare
from examples.flights.wire import FLIGHTS, PLANES
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.scenarios.cluster import Cluster
from tests.scenarios.waiting import until


@pytest.mark.long
def test_flights_are_fed_until_it_is_stopped() -> None:
    """Every record it reports as sent is in the topic; the late planes follow the flights that wait for them."""
    given = scenario(data.flights(1), data.planes())
    with EmbeddedKafka() as kafka:
        prepare(kafka.bootstrap_servers, given)
        prepare(kafka.bootstrap_servers, given)
        cluster = Cluster(kafka.bootstrap_servers)
        on_time = 2 * (len(given.planes) - len(given.awaited))
        assert len(cluster.read(PLANES)) == on_time
        stopping = threading.Event()
        sent: list[int] = []
        feeding = threading.Thread(
            target=lambda: sent.append(feed(kafka.bootstrap_servers, given, per_second=500, stopping=stopping))
        )
        feeding.start()
        try:
            until(lambda: len(cluster.read(PLANES)) > on_time, "late planes come")
        finally:
            stopping.set()
            feeding.join()
        assert len(cluster.read(FLIGHTS)) == sent[0] > 500
