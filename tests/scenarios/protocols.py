"""The rebalance protocols, for tests in which assignments change."""

from typing import Final

import pytest

PROTOCOLS: Final = (
    pytest.param({"partition.assignment.strategy": "cooperative-sticky"}, id="cooperative-sticky"),
    pytest.param({"partition.assignment.strategy": "range"}, id="range", marks=pytest.mark.long),
    pytest.param({"group.protocol": "consumer"}, id="consumer"),
)
"""Client settings. The crash tests use an eager strategy such as ``range`` in each run."""
