"""How many examples a property gets that needs more or fewer than others."""

from hypothesis import settings

_USUAL = 100
"""What hypothesis takes by default."""


def share(number: int) -> int:
    """Return the number of examples for ``number`` of every hundred that others get; the quick tests get a quarter."""
    return max(1, number * settings().max_examples // _USUAL)
