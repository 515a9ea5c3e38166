"""Rotating credentials: the processes change to a new user one by one, and then the old user is deleted."""

import pytest

from kafka_redelivery.topology import exit_codes
from tests.scenarios.cluster import Cluster
from tests.scenarios.gatekeeper import Gatekeeper
from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until


@pytest.fixture
def cluster(gatekeeper: Gatekeeper) -> Cluster:
    """A broker with users, instead of the one that all tests share."""
    return gatekeeper.cluster


@pytest.mark.kafka
@pytest.mark.long
def test_a_process_at_a_time(group: Group, gatekeeper: Gatekeeper) -> None:
    """Every record is handled once, also those sent during the change; a process with the old user does not start."""
    users = [f"{group.name}-1", f"{group.name}-2"]
    gatekeeper.broker.add_users(users)
    before, after = map(gatekeeper.broker.settings, users)
    group.prepare()
    group.configure(kafka=before)
    processes = {"w1": group.worker("w1"), "w2": group.worker("w2"), "s1": group.scheduler("s1")}
    sent = 0

    def send() -> None:
        nonlocal sent
        group.send([["ok"], ["raise", "ok"]] * 10, first=sent)
        sent += 20

    send()
    until(lambda: len(group.outputs()) == sent, "the first records are handled")
    group.configure(kafka=after)
    for name, process in processes.items():
        send()
        process.stop()
        group.start("scheduler" if name == "s1" else "worker", name)
        send()
    until(lambda: len(group.outputs()) == sent, "the records sent meanwhile are handled")

    gatekeeper.broker.delete_user(users[0])
    send()
    group.settle()
    group.configure(kafka=before)
    late = group.worker("w3")
    assert late.wait(60) == exit_codes.FAILED
    assert "authentication" in late.log.lower()
    group.stop()
    assert group.outputs() == exactly(range(sent))
    assert group.dead() == exactly([])
