"""Three nodes for all tests of this folder, and a group under load on them."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.crash.brokers.nodes import Nodes
from tests.crash.brokers.play import Play
from tests.crash.brokers.proxies import HOST, Proxy
from tests.crash.brokers.small_disk import SmallDisk, can_mount
from tests.crash.brokers.three import HEAP_MB, Three
from tests.crash.load import BROKER
from tests.scenarios.cluster import Cluster
from tests.scenarios.running import Group

_NODES: Final = 3
_SESSION_MS: Final = 6000
_PROPERTIES: Final = BROKER | {
    # A controller on a busy machine is slow and has not died.
    "controller.quorum.fetch.timeout.ms": "6000",
    "controller.quorum.election.timeout.ms": "3000",
    "broker.session.timeout.ms": "9000",
    "broker.heartbeat.interval.ms": "1000",
    "group.consumer.session.timeout.ms": str(_SESSION_MS),
    "group.consumer.heartbeat.interval.ms": "500",
    "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,CUT:PLAINTEXT",
}
_CLASSIC: Final = {"session.timeout.ms": _SESSION_MS, "heartbeat.interval.ms": 500}
PROTOCOLS: Final[Mapping[str, Mapping[str, Any]]] = {
    "classic": {"group.protocol": "classic", **_CLASSIC},
    "consumer": {"group.protocol": "consumer"},
}


@pytest.fixture(scope="package")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallDisk | None]:
    """Yield the small disk of the last node, if this process may mount one."""
    if not can_mount():
        yield None
        return
    found = SmallDisk(tmp_path_factory.mktemp("nodes") / str(_NODES) / "data")
    try:
        yield found
    finally:
        found.unmount()


@pytest.fixture(scope="package")
def proxies() -> Iterator[dict[int, Proxy]]:
    """Yield a way to each node that can be cut."""
    with contextlib.ExitStack() as stack:
        yield {node: stack.enter_context(Proxy()) for node in range(1, _NODES + 1)}


@pytest.fixture(scope="package")
def nodes(
    proxies: dict[int, Proxy], disk: SmallDisk | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nodes]:
    """Start the nodes."""
    folder = disk.folder.parent.parent if disk else tmp_path_factory.mktemp("nodes")
    kafka = Nodes(
        _NODES,
        data_dir=folder,
        properties=_PROPERTIES,
        cut={node: (f"{HOST}:{proxy.target}", f"{HOST}:{proxy.port}") for node, proxy in proxies.items()},
        heap_mb=HEAP_MB,
    )
    kafka.start()
    try:
        yield kafka
    finally:
        kafka.kill()


@pytest.fixture
def three(nodes: Nodes) -> Three:
    """Return the nodes, all of which run and have all replicas."""
    found = Three(nodes)
    found.heal()
    return found


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    """Return the name of each group protocol."""
    return str(request.param)


@pytest.fixture
def play(three: Three, unique: str, protocol: str, tmp_path: Path) -> Iterator[Play]:
    """Yield a group whose processes have work."""
    group = Group(Cluster(three.kafka.bootstrap_servers, {"enable.idempotence": True}), unique, tmp_path)
    try:
        yield Play(group, three, PROTOCOLS[protocol])
    finally:
        group.close()
        three.heal()
        # Each partition that is left makes the brokers slower.
        group.cluster.delete(*(topic for topic in group.cluster.topics() if unique in topic))
