import re
from pathlib import Path

import pytest

from kafka_redelivery.topology.config.loading import load_settings

ROOT = Path(__file__).parents[3]


def blocks(page: str, language: str) -> list[str]:
    """Code blocks of a page in a language."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def test_it_is_read_in_a_minute() -> None:
    """Code and drawing aside, it has at most 450 words."""
    text = re.sub(r"```.*?```", "", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(text.split()) <= 450


def test_its_configuration_is_valid() -> None:
    """The configuration of the README loads without faults."""
    [text] = blocks("README.md", "yaml")
    settings = load_settings(text)
    assert {handler.callable for handler in settings.handlers.values()} == {"handlers:charge"}


def test_its_handler_passes_its_test(pytester: pytest.Pytester) -> None:
    """The handler and its test in docs/testing.md run as printed, with a bank module."""
    [handler], test = blocks("README.md", "python"), blocks("docs/testing.md", "python")[0]
    pytester.makepyfile(handlers=handler, bank="", test_charge=test)
    pytester.syspathinsert()
    result = pytester.runpytest_inprocess("--import-mode=importlib", "-p", "no:cacheprovider", "-p", "no:randomly")
    result.assert_outcomes(passed=1)
