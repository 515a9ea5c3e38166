"""Fixtures of the scenarios and of the tests of the pipeline: the cluster and a group of processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.scenarios.cluster import Cluster
from tests.scenarios.running import Group


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
