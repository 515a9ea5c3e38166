"""One browser for all files."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.console.browsing import chromium


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium."""
    with chromium() as found:
        yield found
