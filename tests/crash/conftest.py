"""The broker of these groups, several of which run at once, and the table of what became of them."""

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
_CRASHES: Final[list[Crash]] = []


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

        def result(point: KillPoint) -> Crash:
            found = futures[point].result()
            _CRASHES.append(found)
            return found

        yield result
        pool.shutdown(cancel_futures=True)


def _fixtures(item: pytest.Item) -> list[str]:
    return list(getattr(item, "fixturenames", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints what became of each kill point."""
    if not _CRASHES:
        return
    terminalreporter.section("kill points")
    width = max(len(str(each.point)) for each in _CRASHES)
    terminalreporter.write_line(f"{'kill point':{width}}  lost  doubled  seconds")
    for each in sorted(_CRASHES, key=lambda each: str(each.point)):
        verdict = each.verdict
        terminalreporter.write_line(
            f"{each.point!s:{width}}  {verdict.lost:4}  {verdict.doubled:7}  {each.seconds:7.1f}"
        )
    auto = sum(each.point.mode == "auto" for each in _CRASHES)
    lost = sum(each.verdict.lost for each in _CRASHES)
    doubled = sum(each.verdict.doubled for each in _CRASHES if each.point.mode != "auto")
    terminalreporter.write_line(
        f"{len(_CRASHES)} kill points: lost {lost}, doubled {doubled}"
        + (f" (without the {auto} of mode auto, which is at least once)" if auto else "")
    )
