"""The broker of these groups, several of which run at once."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from tests.crash.crashing import Crash, crash
from tests.crash.load import BROKER
from tests.crash.points import KillPoint
from tests.scenarios.cluster import Cluster
from tests.scenarios.running import Group
from transport.embedded import EmbeddedKafka

_AT_ONCE: Final = 4


@pytest.fixture(scope="session")
def crash_kafka() -> Iterator[EmbeddedKafka]:
    """A broker that notices the dead soon."""
    with EmbeddedKafka(properties=BROKER) as broker:
        yield broker


@pytest.fixture
def group(crash_kafka: EmbeddedKafka, unique: str, tmp_path: Path) -> Iterator[Group]:
    """A group with its own names."""
    found = Group(Cluster(crash_kafka.bootstrap_servers), unique, tmp_path)
    try:
        yield found
    finally:
        found.close()


@pytest.fixture(scope="session")
def crashed(
    crash_kafka: EmbeddedKafka, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[KillPoint], Crash]]:
    """What became of a kill point; all those of this session are begun at once, some at a time, in their order."""
    points = [item.callspec.params["point"] for item in request.session.items if "crashed" in _fixtures(item)]  # type: ignore[attr-defined]
    folder = tmp_path_factory.mktemp("crashes")
    servers = crash_kafka.bootstrap_servers
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        futures: dict[KillPoint, Future[Crash]] = {
            point: pool.submit(crash, point, servers, folder / str(point)) for point in points
        }

        yield lambda point: futures[point].result()
        pool.shutdown(cancel_futures=True)


def _fixtures(item: pytest.Item) -> list[str]:
    return list(getattr(item, "fixturenames", ()))
