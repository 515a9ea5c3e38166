"""How many examples a property gets that needs more or fewer than others."""

from hypothesis import settings


def share(number: int) -> int:
    """Return a share of the examples that others get: ``number`` of each hundred. tests/conftest.py says how many."""
    return max(1, number * settings().max_examples // 100)
