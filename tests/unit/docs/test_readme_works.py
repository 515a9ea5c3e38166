import re
from pathlib import Path

import pytest

from kafka_redelivery.topology.config.loading import load_settings

README = (Path(__file__).parents[3] / "README.md").read_text()


def blocks(language: str) -> list[str]:
    """Code blocks of the README in a language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_its_configuration_is_valid() -> None:
    """The configuration of the README loads without faults."""
    [text] = blocks("yaml")
    settings = load_settings(text)
    assert {handler.callable for handler in settings.handlers.values()} == {"handlers:charge"}


def test_its_handler_passes_its_test(pytester: pytest.Pytester) -> None:
    """The handler and its test run as printed, with a bank module."""
    handler, test = blocks("python")
    pytester.makepyfile(handlers=handler, bank="", test_charge=test)
    pytester.syspathinsert()
    result = pytester.runpytest_inprocess("--import-mode=importlib", "-p", "no:cacheprovider", "-p", "no:randomly")
    result.assert_outcomes(passed=1)
