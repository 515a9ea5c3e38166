"""The shipped manifest of the query runs on a broker that denies what no ACL allows."""

import json

import pytest

from tests.scenarios.authenticated import AuthenticatedKafka
from tests.scenarios.cluster import Sent
from tests.scenarios.manifests import OUTPUT, SOURCE, Namespace
from tests.scenarios.waiting import LONG_S, until


@pytest.mark.spark
def test_stream(secured: AuthenticatedKafka, namespace: Namespace) -> None:
    """After the Job a query handles an order with its user's rights, and stops on SIGTERM within its grace period."""
    assert namespace.start("kubernetes/topology.yaml").process.wait(LONG_S) == 0
    pod = namespace.start("kubernetes-spark/stream.yaml")
    secured.cluster.produce(SOURCE, [Sent(json.dumps({"id": 1, "amount": 5}).encode(), b"key")])
    until(
        lambda: len(secured.cluster.read(OUTPUT)) == 1 or pod.process.poll() is not None,
        "the order has a receipt",
        within_s=2 * LONG_S,
    )
    assert pod.process.poll() is None
    pod.process.terminate()
    assert pod.process.wait(pod.grace_s) == 0
    assert "authoriz" not in pod.log.read_text(encoding="utf-8").lower()
