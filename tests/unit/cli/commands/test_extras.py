"""Commands that need an extra look for all packages that it brings."""

import re
from importlib.metadata import packages_distributions, requires

from kafka_redelivery.cli.console.command import PACKAGES


def test_every_package_of_the_console_is_looked_for() -> None:
    """By the name that is imported; the names of distributions are those of pyproject.toml."""
    lines = [line for line in requires("kafka-redelivery") or () if re.search(r"extra == .console\b", line)]
    named = {match[0].lower() for line in lines if (match := re.match(r"[\w-]+", line))} - {"kafka-redelivery"}
    distributions = {name: {each.lower() for each in found} for name, found in packages_distributions().items()}
    assert named
    assert named == {each for name in PACKAGES for each in distributions[name] if each in named}
