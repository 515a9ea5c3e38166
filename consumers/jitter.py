"""The one place where randomness is drawn."""

from __future__ import annotations

import random
from collections.abc import Iterator


def draws() -> Iterator[float]:
    """Endless draws from [-1, 1)."""
    while True:
        yield random.uniform(-1.0, 1.0)
