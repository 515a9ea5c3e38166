"""Options, marks and fixtures of all tests, and the broker that they share.

The quick tests import nothing of the broker and of the scenarios, which would double the start of each process.
"""

from __future__ import annotations

import gc
import logging
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from _pytest.logging import LoggingPlugin
from hypothesis import settings

from tests.areas import draws_less, is_quick

if TYPE_CHECKING:
    from kafka_redelivery.transport.broker.embedded import EmbeddedKafka

# A busy machine makes any example slow now and then; that says nothing about the code.
settings.register_profile("usual", deadline=None, max_examples=15)
settings.register_profile("quick", deadline=None, max_examples=10)
settings.load_profile("usual")

pytest_plugins = [
    "pytester",
    "tests.cases",
    "tests.choosing",
    "tests.crash.table",
    "tests.distribution",
    "tests.no_skips",
]

_QUERY_ERROR_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


def pytest_configure(config: pytest.Config) -> None:
    """Prepare what the chosen tests need.

    For others than the quick tests the JVMs of Kafka and Spark are made to start sooner.
    """
    if draws_less(config):
        settings.load_profile("quick")
    if not is_quick(config):
        from tests import jvm  # noqa: PLC0415 - see above

        config.pluginmanager.import_plugin("tests.scenarios.fixtures")
        jvm.configure(config)


def pytest_collection() -> None:
    """Let the garbage collector rest while modules are imported, which makes much and leaves nothing behind."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Let it look only at what tests make: it would look again and again at thousands of tests and all modules."""
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    """Let it look at everything again, or DuckDB reports what it still finds at the end of the process as leaks."""
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Restore the formatters of pytest's log handlers before each test.

    pytest adds its handlers to loggers that do not propagate. PySpark makes such loggers for errors of queries, and
    they give each of their handlers a JSON formatter, which fails for an exception that cannot be formatted.
    """
    for name in _QUERY_ERROR_LOGGERS:
        if isinstance(logger := logging.root.manager.loggerDict.get(name), logging.Logger):
            logger.propagate = True
    plugin = item.config.pluginmanager.get_plugin("logging-plugin")
    assert isinstance(plugin, LoggingPlugin)
    for handler in (plugin.caplog_handler, plugin.report_handler):
        handler.setFormatter(plugin.formatter)


@pytest.fixture(scope="session")
def kafka() -> Iterator[EmbeddedKafka]:
    """Start one broker for the whole session; ``unique`` names keep the tests apart."""
    from kafka_redelivery.transport.broker.embedded import EmbeddedKafka  # noqa: PLC0415 - see above

    broker = EmbeddedKafka()
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()  # to stop with thousands of partitions takes half a minute


@pytest.fixture
def unique() -> str:
    """Return a prefix for topics, groups and transactional ids that no other test uses."""
    return f"t{uuid.uuid4().hex[:10]}"
