"""The areas of the tests: what `./dev test AREA` runs."""

from collections.abc import Mapping
from typing import Final

import pytest

QUICK: Final = ("tests/unit", "tests/parity")
"""What `./dev test` runs: nothing but this process, neither Java nor a broker, a browser or another program."""

AREAS: Final[Mapping[str, tuple[str, ...]]] = {
    "worker": (
        "tests/unit/consumers/flow",
        "tests/unit/consumers/handlers",
        "tests/unit/consumers/process",
        "tests/unit/consumers/telemetry",
        "tests/unit/consumers/worker",
        "tests/unit/consumers/writes",
        "tests/unit/serdes",
        "tests/integration/consumers",
        "tests/integration/serdes",
        "tests/scenarios/worker",
    ),
    "scheduler": ("tests/unit/consumers/scheduler", "tests/scenarios/scheduler"),
    "dead-letters": (
        "tests/unit/consumers/dead_letters",
        "tests/unit/consumers/operations",
        "tests/unit/dead_letters",
        "tests/unit/topology/redrive",
        "tests/scenarios/dead_letters",
    ),
    "console": ("tests/unit/cli/console", "tests/integration/console", "tests/scenarios/console", "tests/console"),
    "spark": ("tests/unit/pipeline", "tests/integration/pipeline", "tests/pipeline"),
    "config": (
        "tests/unit/topology",
        "tests/unit/cli",
        "tests/integration/cli",
        "tests/integration/topology",
        "tests/parity",
    ),
    "topology": (
        "tests/unit/topology/cluster",
        "tests/unit/transport",
        "tests/integration/transport",
        "tests/scenarios/topology",
    ),
    "security": ("tests/scenarios/security",),
    "operations": (
        "tests/unit/examples",
        "tests/integration/examples",
        "tests/monitoring",
        "tests/unit/test_dashboards.py",
        "tests/scenarios/operations",
        "tests/bench",
        "tests/simulation",
    ),
    "deploy": ("tests/deploy", "tests/containers", "tests/packaging"),
    "docs": ("tests/unit/docs", "tests/integration/docs", "examples"),
    "harness": ("tests/harness",),
}
"""The folders of each area."""


def is_quick(config: pytest.Config) -> bool:
    """Return whether nothing but quick tests runs."""
    return all(argument.startswith(QUICK) for argument in config.args)


def draws_less(config: pytest.Config) -> bool:
    """Return whether each property gets fewer examples, and each test one seed: ``verify`` draws all again."""
    return is_quick(config) and config.getoption("hypothesis_profile") is None
