"""Options, marks and fixtures of all tests, and the broker that they share."""

import logging
import os
import uuid
from collections.abc import Iterator

import pytest
from _pytest.logging import LoggingPlugin
from hypothesis import settings

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests import jvm

# A busy machine makes any example slow now and then; that says nothing about the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

pytest_plugins = ["pytester", "tests.crash.table", "tests.distribution", "tests.scenarios.fixtures"]

_SKIPPED: list[str] = []
_QUERY_ERROR_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_IMAGES_S = 600
"""Time-out of a test with containers, in seconds; the first one builds the images."""

_SPARK_S = 900
"""Time-out of a test with Spark. After a time-out all later tests of the process fail, because the answer to the call
that it interrupts is read as that to the next call; so it is long."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that select the crash tests, the long tests and the tests with containers."""
    parser.addoption(
        "--crash", action="store_true", help="run all crash tests and nothing else; without it, a sample of them"
    )
    parser.addoption("--long", action="store_true", help="run the long tests of rare cases as well")
    parser.addoption(
        "--no-containers", action="store_true", help="deselect the tests that need a container engine; refused in CI"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse ``--no-containers`` in CI, and make the JVMs of Kafka and Spark start sooner."""
    if config.getoption("no_containers") and os.environ.get("CI"):
        raise pytest.UsageError("--no-containers is not allowed while CI is set, since CI must run every test")
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


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect each skipped test."""
    if report.skipped and not hasattr(report, "wasxfail"):
        _SKIPPED.append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Collect each module that was skipped during collection."""
    if report.skipped:
        _SKIPPED.append(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the session in CI if a test was skipped, since CI must run every test."""
    passed = session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
    if passed and _SKIPPED and os.environ.get("CI"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the skipped tests that fail a session in CI."""
    if _SKIPPED and os.environ.get("CI"):
        terminalreporter.write_line(f"{len(_SKIPPED)} skipped: with CI set a skipped test is a failure", red=True)
        for nodeid in _SKIPPED:
            terminalreporter.write_line(f"  {nodeid}", red=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by the fixtures that they use, and deselect the ones that the options exclude."""
    for item in items:
        if "kafka" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.kafka)
        if "client" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.containers)
            item.add_marker(pytest.mark.timeout(_IMAGES_S))
        if item.get_closest_marker("spark") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_SPARK_S))
    whole = config.getoption("crash")
    deselected = [
        item for item in items if (not item.get_closest_marker("crash") if whole else item.get_closest_marker("full"))
    ]
    if not config.getoption("long"):
        deselected += [item for item in items if item.get_closest_marker("long") and item not in deselected]
    if config.getoption("no_containers"):
        deselected += [item for item in items if item.get_closest_marker("containers") and item not in deselected]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if item not in set(deselected)]


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
