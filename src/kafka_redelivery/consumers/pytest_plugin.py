"""The pytest plugin: fixtures for the tests of a service. docs/testing.md describes them.

pytest imports this module whenever it starts in an environment with kafka-redelivery. So the module imports nothing but
pytest, and a fixture imports what it needs when a test uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kafka_redelivery.consumers.app import App
    from kafka_redelivery.consumers.running_service import RunningService
    from kafka_redelivery.consumers.testkit import HandlerKit
    from kafka_redelivery.transport.broker.embedded import EmbeddedKafka


def pytest_configure(config: pytest.Config) -> None:
    """Ignore a warning that only this project can do something about.

    The newer request of the Kafka client ends the process if Kafka goes away (librdkafka#4605).
    """
    config.addinivalue_line("filterwarnings", "ignore:list_groups:DeprecationWarning")


@pytest.fixture(scope="session")
def redelivery_kafka() -> Iterator[EmbeddedKafka]:
    """Start an Apache Kafka on 127.0.0.1 for the session; each process of pytest-xdist that uses it has its own.

    ``redelivery_kafka.bootstrap_servers`` is its address; ``redelivery_kafka.create_topics({"orders": 3})`` creates
    topics.
    """
    from kafka_redelivery.transport.broker.embedded import EmbeddedKafka  # noqa: PLC0415 - see above

    kafka = EmbeddedKafka()
    kafka.start()
    try:
        yield kafka
    finally:
        kafka.kill()  # its data is temporary, and to stop takes seconds


@pytest.fixture
def redelivery_kit(request: pytest.FixtureRequest) -> Iterator[Callable[..., HandlerKit]]:
    """Return a function that makes a :class:`HandlerKit`, which is closed after the test.

    ``redelivery_kit()`` has the configuration ``redelivery.yaml``, ``redelivery_kit("other.yaml", source="orders")``
    another one; other arguments are those of ``HandlerKit.from_config``. A relative path is looked for in the folder of
    the test and in those above it. With an App the arguments are those of ``App.kit``, with a function or class those
    of ``HandlerKit`` itself.
    """
    from kafka_redelivery.consumers.app import App  # noqa: PLC0415 - see above
    from kafka_redelivery.consumers.testkit import HandlerKit  # noqa: PLC0415

    with ExitStack() as kits:

        def make(
            subject: str | Path | App | Callable[..., Any] = "redelivery.yaml",
            **options: Any,  # noqa: ANN401 - of any of them
        ) -> HandlerKit:
            if isinstance(subject, str | Path):
                kit = HandlerKit.from_config(_found(subject, request), **options)
            else:
                kit = subject.kit(**options) if isinstance(subject, App) else HandlerKit(subject, **options)
            return kits.enter_context(kit)

        yield make


@pytest.fixture
def redelivery_running(
    request: pytest.FixtureRequest, redelivery_kafka: EmbeddedKafka
) -> Iterator[Callable[..., RunningService]]:
    """Return a function that runs an App, or the service of a configuration, on ``redelivery_kafka``.

    ``redelivery_running(app)`` starts a worker and a scheduler in threads of the test's process, and returns a
    :class:`RunningService` to produce, wait and read with. They stop after the test. Each test begins with empty
    topics; two services of one test share those that both have.
    """
    from kafka_redelivery.consumers.app import App  # noqa: PLC0415 - see above
    from kafka_redelivery.consumers.running_service import running_service  # noqa: PLC0415

    made: set[str] = set()
    with ExitStack() as services:

        def run(
            app: App | str | Path = "redelivery.yaml",
            *,
            overrides: Sequence[str] = (),
            environment: Mapping[str, str] | None = None,
        ) -> RunningService:
            if isinstance(app, str | Path):
                app = App.from_config(_found(app, request), environment=environment)
            return services.enter_context(running_service(app, redelivery_kafka, made, overrides))

        yield run


def _found(file: str | Path, request: pytest.FixtureRequest) -> Path:
    """Return the file in the folder of the test or in one above it, or where the path leads as it is given."""
    found = next((found for folder in request.path.parents if (found := folder / file).is_file()), Path(file))
    if not found.is_file():
        raise FileNotFoundError(
            f"there is no {file} in the folder of the test or above it; name another file, an App, or (redelivery_kit) "
            "the handler: redelivery_kit(charge, value=JsonCodec())"
        )
    return found
