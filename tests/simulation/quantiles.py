"""Quantiles of measured values."""

from collections.abc import Iterable


def quantiles(values: Iterable[float]) -> dict[str, float]:
    """Return ``p50``, ``p99`` and ``max``; 0 without values."""
    ordered = sorted(values) or [0.0]
    last = len(ordered) - 1
    return {
        "p50": round(ordered[last // 2], 1),
        "p99": round(ordered[int(last * 0.99)], 1),
        "max": round(ordered[-1], 1),
    }
