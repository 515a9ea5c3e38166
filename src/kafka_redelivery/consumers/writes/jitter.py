"""The only module that draws random numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator


def draws() -> Iterator[float]:
    """Yield uniform draws from [-1, 1) without end."""
    while True:
        yield random.uniform(-1.0, 1.0)
