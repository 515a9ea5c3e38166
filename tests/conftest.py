"""Options, marks and fixtures of all tests, and the broker that they share."""

import logging
import uuid
from collections.abc import Iterator

import pytest
from _pytest.logging import LoggingPlugin
from hypothesis import settings

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests import jvm
from tests.areas import QUICK

# A busy machine makes any example slow now and then; that says nothing about the code.
settings.register_profile("usual", deadline=None, max_examples=30)
settings.register_profile("quick", deadline=None, max_examples=15)
settings.load_profile("usual")

pytest_plugins = [
    "pytester",
    "tests.choosing",
    "tests.crash.table",
    "tests.distribution",
    "tests.no_skips",
    "tests.scenarios.fixtures",
]

_QUERY_ERROR_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


def pytest_configure(config: pytest.Config) -> None:
    """Prepare what the chosen tests need.

    The quick tests draw half of the examples of each property. For the others the JVMs of Kafka and Spark are made
    to start sooner.
    """
    if all(argument.startswith(QUICK) for argument in config.args):
        if config.getoption("hypothesis_profile") is None:
            settings.load_profile("quick")
    else:
        jvm.configure(config)


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
