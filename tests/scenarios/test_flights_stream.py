"""The steady feed of the demo: its topics are made once, flights come at their rate, and late planes come late."""

import threading

from examples.flights import data
from examples.flights.scenario import scenario
from examples.flights.stream import feed, prepare
from examples.flights.wire import FLIGHTS, PLANES
from tests.scenarios.cluster import Cluster
from tests.scenarios.waiting import until
from transport.embedded import EmbeddedKafka


def test_flights_are_fed_until_it_is_told_to_stop() -> None:
    """All it says it has sent is there, and the planes that flights wait for follow them."""
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
