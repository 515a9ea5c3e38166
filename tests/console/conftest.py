"""A browser for each file: while it runs, no other test of the process can run an event loop of its own."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.console.browsing import chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium."""
    with chromium() as found:
        yield found
