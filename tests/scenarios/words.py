"""Texts of words, which gzip and zstd compress much better than lz4 does."""

import json
import random
from collections.abc import Sequence
from functools import cache
from typing import Final

from tests.scenarios.cluster import Sent

LARGE: Final = 2_300_000
"""Bytes of a text that is above the default limit of a topic (1,048,588) with lz4, and below it with gzip or zstd."""


@cache
def text(size: int = LARGE) -> str:
    """Return a text of about ``size`` characters, always the same."""
    draws = random.Random(7)  # noqa: S311 - no secret
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    weights = [1 / (rank + 1) for rank in range(len(letters))]
    words = ["".join(draws.choices(letters, weights, k=draws.randint(2, 10))) for _ in range(3000)]
    chances = [1 / (rank + 10) for rank in range(len(words))]
    return " ".join(draws.choices(words, chances, k=size // 5))[:size]


def script_with_text(n: int, do: Sequence[str], size: int = LARGE) -> Sent:
    """Make a source record with its script and a text of about ``size`` bytes."""
    return Sent(json.dumps({"n": n, "do": list(do), "padding": text(size)}).encode(), b"k%d" % n)
