"""The tests of the example services pass as a user runs them."""

from pathlib import Path

import pytest

from kafka_redelivery.consumers.inbox import schema
from tests.plugin import LOADED

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize(("folder", "passed"), [("django_service", 3), ("fastapi_service", 4)])
def test_its_own_tests_pass(pytester: pytest.Pytester, folder: str, passed: int) -> None:
    """In a process of their own: Django has one project for each."""
    result = pytester.runpytest_subprocess("--import-mode=importlib", *LOADED, str(EXAMPLES / folder))
    result.assert_outcomes(passed=passed)


def test_the_service_is_small_and_its_table_is_that_of_the_inbox() -> None:
    """FastAPI, SQLAlchemy and four handlers in at most 120 lines; inbox.sql is what the command prints."""
    folder = EXAMPLES / "fastapi_service"
    assert len((folder / "service.py").read_text().splitlines()) <= 120
    assert (folder / "inbox.sql").read_text() == schema("sqlite")
