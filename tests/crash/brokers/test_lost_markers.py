"""A rolling restart of three nodes takes no marker from a transaction (KAFKA-20734), as one of a single node does."""

import pytest

from tests.crash.brokers.lost_markers import PARTITIONS, Transactions, count, restart_each
from tests.crash.brokers.three import Three
from tests.scenarios.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(1800)]


def test_no_transaction_loses_a_marker(three: Three, unique: str) -> None:
    """Each transaction is found in all partitions or in none, as it ended, while each node is restarted once."""
    three.kafka.create_topics({unique: PARTITIONS})
    with Transactions(three.kafka.bootstrap_servers, unique) as transactions:
        restart_each(three, transactions)
    found = count(Cluster(three.kafka.bootstrap_servers), transactions)
    assert found.transactions > 100
    assert found.wrong == 0, found
