"""The quick start is complete, and its files are consistent."""

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from examples.quickstart import test_handlers as users_tests
from kafka_redelivery.consumers.handlers.handler import load_handler
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.config.settings import Settings

FOLDER = Path(users_tests.__file__).parent


@pytest.fixture
def settings() -> Settings:
    """Its configuration."""
    return load_settings((FOLDER / "redelivery.yaml").read_text())


def test_its_handler_is_found_beside_its_configuration(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker finds it there."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(FOLDER)])
    section = settings.handlers["orders"]
    with ExitStack() as stack:
        handler = load_handler(section.callable, section.not_retryable, stack)
    assert (handler.takes_context, handler.asynchronous) == (True, False)
    assert Path(sys.modules["handlers"].__file__ or "").parent == FOLDER
    del sys.modules["handlers"]


def test_its_tests_use_its_policy(settings: Settings) -> None:
    """Its tests run with the policy of its configuration."""
    assert settings.entry("orders").redelivery_policy == users_tests.POLICY


def test_its_own_tests_pass(pytester: pytest.Pytester) -> None:
    """They pass as a user runs them."""
    result = pytester.runpytest_inprocess("--import-mode=importlib", "-p", "no:cacheprovider", str(FOLDER))
    result.assert_outcomes(passed=4)
