"""Fixtures of the scenarios and of the tests of the pipeline: the cluster, a group of processes, a writer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from kafka_redelivery.transport.client_config import Config, consumer_config, producer_config
from kafka_redelivery.transport.clients.auto_writer import AutoWriter
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.clients.writer import TransactionalWriter
from kafka_redelivery.transport.protocols import Writer
from tests.scenarios.authenticated import AuthenticatedKafka
from tests.scenarios.cluster import Cluster
from tests.scenarios.gatekeeper import Gatekeeper, guarded_kafka
from tests.scenarios.manifests import Namespace, namespace_of
from tests.scenarios.running import Group
from tests.scenarios.secured import secured_kafka
from tests.scenarios.users import Users


@pytest.fixture
def cluster(kafka: EmbeddedKafka) -> Cluster:
    """The shared broker."""
    return Cluster(kafka.bootstrap_servers)


@pytest.fixture(scope="session")
def gatekeeper() -> Iterator[Gatekeeper]:
    """A broker with authorization, which is shared, too."""
    with guarded_kafka() as found:
        yield found


@pytest.fixture
def group(cluster: Cluster, unique: str, tmp_path: Path) -> Iterator[Group]:
    """A consumer group with its own names, and a folder for its configuration and logs."""
    found = Group(cluster, unique, tmp_path)
    try:
        yield found
    finally:
        found.close()


@pytest.fixture(params=["transacted", "auto"])
def writer(request: pytest.FixtureRequest, cluster: Cluster, unique: str) -> Iterator[Writer]:
    """A writer of either mode, and a topic with the name ``unique``."""
    cluster.create(unique)
    kafka: Config = {"bootstrap.servers": cluster.servers, "log_level": 0}
    reader = GroupReader(consumer_config(kafka, group=unique, instance=None))
    opened: Writer
    if request.param == "auto":
        opened = AutoWriter(producer_config(kafka, transactional_id=None), reader)
    else:
        opened = TransactionalWriter(producer_config(kafka, transactional_id=unique), reader)
    yield opened
    opened.close()
    reader.close()


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuthenticatedKafka]:
    """A broker that denies what no ACL allows."""
    with secured_kafka(tmp_path_factory.mktemp("tls")) as found:
        yield found


@pytest.fixture
def namespace(secured: AuthenticatedKafka, tmp_path: Path) -> Iterator[Namespace]:
    """What the manifests in deploy/ need before a process starts."""
    with namespace_of(secured, tmp_path) as found:
        yield found


@pytest.fixture
def users(secured: AuthenticatedKafka, unique: str, tmp_path: Path) -> Iterator[Users]:
    """A group and its users."""
    found = Group(secured.cluster, unique, tmp_path)
    try:
        yield Users(secured, found)
    finally:
        found.close()
