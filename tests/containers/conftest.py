"""Fixtures of the tests with containers: an engine, images, a network, a Kafka."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker import DockerClient
from testcontainers.core.config import testcontainers_config
from testcontainers.core.network import Network

from tests.containers import kafka_image as kafka_images
from tests.containers import worker_image as worker_images
from tests.containers.base_image import ImageMissingError
from tests.containers.engine import EngineMissingError, engine
from tests.containers.kafka import KafkaContainer
from tests.containers.processes import ContainerGroup
from tests.scenarios.cluster import Cluster
from tests.scenarios.running import Group

# Testcontainers' clean-up container needs another image; the fixtures here remove what they create.
os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"
testcontainers_config.ryuk_disabled = True


@pytest.fixture(scope="session")
def client() -> Iterator[DockerClient]:
    """Start a client of the engine."""
    try:
        with engine(), contextlib.closing(docker.from_env(timeout=300)) as found:
            yield found
    except EngineMissingError as missing:
        pytest.fail(str(missing), pytrace=False)


@pytest.fixture(scope="session")
def kafka_image(client: DockerClient) -> str:
    """Build the image of Kafka."""
    try:
        return kafka_images.kafka_image(client)
    except ImageMissingError as missing:
        pytest.fail(str(missing), pytrace=False)


@pytest.fixture(scope="session")
def worker_image(client: DockerClient) -> str:
    """Build the image of worker and scheduler."""
    try:
        return worker_images.worker_image(client)
    except ImageMissingError as missing:
        pytest.fail(str(missing), pytrace=False)


@pytest.fixture(scope="session")
def network(client: DockerClient) -> Iterator[Network]:  # noqa: ARG001 - the engine runs
    """Create a network for all containers."""
    with Network() as made:
        yield made


@pytest.fixture(scope="session")
def kafka_container(kafka_image: str, network: Network) -> Iterator[KafkaContainer]:
    """Start one Kafka for the whole session."""
    with KafkaContainer(kafka_image, network, KAFKA_MESSAGE_MAX_BYTES="1234567") as container:
        yield container


@pytest.fixture
def containers(
    kafka_container: KafkaContainer, worker_image: str, network: Network, unique: str, tmp_path: Path
) -> Iterator[ContainerGroup]:
    """Yield a consumer group with its own names that runs in containers."""
    tmp_path.chmod(0o755)  # the container's user must be able to read the configuration
    group = Group(Cluster(kafka_container.bootstrap_servers), unique, tmp_path)
    found = ContainerGroup(group, worker_image, network)
    try:
        yield found
    finally:
        found.close()
