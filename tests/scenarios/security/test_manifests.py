"""What deploy/ ships runs on a broker that denies what no ACL allows: configuration, users, rights, files, probes."""

import json

import pytest

from tests.scenarios.authenticated import AuthenticatedKafka
from tests.scenarios.cluster import Sent
from tests.scenarios.manifests import LETTERS, OUTPUT, SOURCE, Namespace
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.kafka]


def test_the_shipped_manifests_run(secured: AuthenticatedKafka, namespace: Namespace) -> None:
    """The Job makes the topics; worker and scheduler get ready, handle records, and stop within their grace period."""
    job = namespace.start("kubernetes/topology.yaml")
    assert job.process.wait(60) == 0
    pods = [namespace.start("kubernetes/worker.yaml"), namespace.start("kubernetes/scheduler.yaml")]
    for pod in pods:
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            until(lambda: pod.status(probe) == 200, f"{probe} of {pod.container['name']} succeeds")  # noqa: B023
    orders = [{"id": n, "amount": amount} for n, amount in enumerate((5, 7, -1, 9))] + [{"id": 4, "amount": "many"}]
    secured.cluster.produce(SOURCE, [Sent(json.dumps(order).encode(), b"key") for order in orders])
    until(lambda: len(secured.cluster.read(OUTPUT)) == 3, "all good orders have a receipt")
    until(lambda: len(secured.cluster.read(LETTERS)) == 1, "the rejected one is a dead letter")
    tier = "billing.retry.1s"
    until(lambda: len(secured.cluster.read(tier)) == 1, "the one that cannot be compared is retried")
    until(lambda: len(secured.cluster.read("billing.ready.orders")) >= 1, "the scheduler releases it")
    for pod in pods:
        pod.process.terminate()
    for pod in pods:
        assert pod.process.wait(pod.grace_s) == 0
        log = pod.log.read_text(encoding="utf-8")
        assert "grant the right" not in log
        assert "authoriz" not in log.lower()
