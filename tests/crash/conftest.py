"""Fixtures of the crash tests: a shared broker, a group, and the kill points, several of which run concurrently."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.crash.crashing import Crash, crash
from tests.crash.load import LASTING, RESTARTED
from tests.crash.points import KillPoint
from tests.scenarios.cluster import Cluster
from tests.scenarios.forgetting import FORGETTING
from tests.scenarios.running import Group

_CONCURRENT: Final = 3


@pytest.fixture(scope="session")
def crash_kafka() -> Iterator[EmbeddedKafka]:
    """Start a broker with short session and transaction time-outs, so that it soon notices a dead process."""
    with EmbeddedKafka(properties=LASTING) as broker:
        yield broker


@pytest.fixture(scope="session")
def forgetful_kafka() -> Iterator[EmbeddedKafka]:
    """Start the same, but for that it forgets a transactional id after a few seconds. It is for flow ``expired``."""
    with EmbeddedKafka(properties=LASTING | FORGETTING) as broker:
        yield broker


@pytest.fixture
def group(crash_kafka: EmbeddedKafka, unique: str, tmp_path: Path) -> Iterator[Group]:
    """Yield a group with its own names."""
    found = Group(Cluster(crash_kafka.bootstrap_servers), unique, tmp_path)
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def own_kafka(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[EmbeddedKafka]:
    """Start a broker for this test alone, whose data survives a restart; in long tests it has the usual time-outs.

    While it is suspended it keeps its session, and with it the lead of all partitions. Otherwise it may meet the fault
    of Kafka that docs/guarantees.md names.
    """
    properties = {} if request.node.get_closest_marker("long") else dict(RESTARTED)
    if "paused" in request.node.name:
        properties["broker.session.timeout.ms"] = "600000"
    with EmbeddedKafka(data_dir=tmp_path / "kafka", properties=properties) as broker:
        yield broker


@pytest.fixture(scope="session")
def crashed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[KillPoint], Crash]]:
    """Return the result of a kill point; all selected kill points start at once, three at a time, in their order."""
    points = [item.callspec.params["point"] for item in request.session.items if "crashed" in _fixtures(item)]  # type: ignore[attr-defined]
    folder = tmp_path_factory.mktemp("crashes")
    brokers = {flow: "forgetful_kafka" if flow == "expired" else "crash_kafka" for flow in {p.flow for p in points}}
    servers = {flow: request.getfixturevalue(name).bootstrap_servers for flow, name in brokers.items()}
    with ThreadPoolExecutor(_CONCURRENT) as pool:
        futures: dict[KillPoint, Future[Crash]] = {
            point: pool.submit(crash, point, servers[point.flow], folder / str(point)) for point in points
        }

        yield lambda point: futures[point].result()
        pool.shutdown(cancel_futures=True)


def _fixtures(item: pytest.Item) -> list[str]:
    return list(getattr(item, "fixturenames", ()))
