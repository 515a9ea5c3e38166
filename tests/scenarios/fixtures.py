"""What scenarios and the tests of the pipeline share: the cluster as a bystander sees it, and a group of processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.cluster import Cluster
from tests.scenarios.running import Group
from transport.embedded import EmbeddedKafka


@pytest.fixture
def cluster(kafka: EmbeddedKafka) -> Cluster:
    """The shared broker."""
    return Cluster(kafka.bootstrap_servers)


@pytest.fixture
def group(cluster: Cluster, unique: str, tmp_path: Path) -> Iterator[Group]:
    """A consumer group with its own names, and a folder for its configuration and logs."""
    found = Group(cluster, unique, tmp_path)
    try:
        yield found
    finally:
        found.close()
