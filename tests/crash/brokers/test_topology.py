"""`topology apply` gives the topics of a group the replicas of their source, and `topology check` wants them."""

from pathlib import Path

import pytest

from kafka_redelivery.topology import exit_codes
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from tests.crash.brokers.three import Three
from tests.scenarios.cluster import Cluster
from tests.scenarios.commands import redelivery
from tests.scenarios.running import Group

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.full, pytest.mark.timeout(1800)]


@pytest.fixture
def group(three: Three, unique: str, tmp_path: Path) -> Group:
    """Return a group without processes, with a source."""
    found = Group(Cluster(three.kafka.bootstrap_servers), unique, tmp_path)
    found.configure(journal=True)
    found.cluster.create(found.source, partitions=3)
    return found


def test_topics_have_the_replicas_of_their_source(group: Group) -> None:
    """Each has three replicas, of which two must be in sync, as the brokers give them to a source by default."""
    applied = redelivery("topology", "apply", file=group.file)
    assert (applied.code, applied.err) == (exit_codes.OK, "")
    names = [name for name in group.cluster.topics() if group.name in name]
    assert {group.tier("200ms"), group.ready, group.dead_letters, group.journal} < set(names)
    found = ClusterAdmin({"bootstrap.servers": group.cluster.servers}).describe(names, {}).topics
    replicas = {name: (topic.replication_factor, topic.configs["min.insync.replicas"]) for name, topic in found.items()}
    assert replicas == dict.fromkeys(names, (3, "2"))
    assert redelivery("topology", "check", file=group.file).code == exit_codes.OK


def test_fewer_replicas_are_refused(group: Group) -> None:
    """A group's topic with fewer replicas than its source could lose what the source would keep."""
    group.configure(topics={"replicationFactor": 1})
    applied = redelivery("topology", "apply", file=group.file)
    assert applied.code == exit_codes.TOPOLOGY_REFUSED
    assert "is planned with 1 replicas, its source" in applied.err
    assert not [name for name in group.cluster.topics() if name.startswith(group.tier(""))]
