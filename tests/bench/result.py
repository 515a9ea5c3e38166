"""The results of a run and the object that ``--json`` prints."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

SYSTEM = "kafka-redelivery"
QUANTILES = (0, 1, 2, 5, *range(10, 100, 10), 95, 98, 99, 99.5, 99.9, 100)
"""Percentiles kept for plots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """How late records came, in ms; ``early`` counts those that came before their due time."""

    p50: float
    p90: float
    p99: float
    max: float
    early: int
    count: int
    quantiles: tuple[float, ...]
    """The lateness at each of :data:`QUANTILES`."""

    @classmethod
    def of(cls, samples_ms: Sequence[float], warm_up: int = 0) -> "Lateness":
        """Summarise the samples without the first ``warm_up``; early ones are counted among those, too."""
        ordered = sorted(samples_ms[warm_up:])

        def at(percent: float) -> float:
            return round(ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)], 2)

        return cls(
            p50=at(50),
            p90=at(90),
            p99=at(99),
            max=at(100),
            early=sum(1 for sample in samples_ms if sample < 0),
            count=len(ordered),
            quantiles=tuple(at(percent) for percent in QUANTILES),
        )

    def as_json(self) -> dict[str, float]:
        """Return the fields that a result shows."""
        return {name: getattr(self, name) for name in ("p50", "p90", "p99", "max", "early", "count")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The figures of the baseline in the same run."""

    name: str
    records_per_s: float | None = None
    lateness: Lateness | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the measured fields."""
        found: dict[str, Any] = {"name": self.name, "records_per_s": self.records_per_s}
        if self.lateness is not None:
            found["lateness_ms"] = self.lateness.as_json()
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a workload; ``None`` where the workload does not measure a field."""

    workload: str
    mode: str
    params: dict[str, object]
    records_per_s: float | None = None
    baseline: Baseline | None = None
    ratio: float | None = None
    lateness: Lateness | None = None
    lost: int = 0
    doubled: int = 0
    rss_worker_mb: float | None = None
    rss_scheduler_mb: float | None = None
    header_retry: int | None = None
    header_dead_letter: int | None = None
    cpu_us_per_record: float | None = None
    seconds: float | None = None
    details: dict[str, Any] = field(default_factory=dict)
    """Figures that only this workload measures."""

    @property
    def faults(self) -> list[str]:
        """Return the broken promises: lost in any mode, doubled in mode transacted, early."""
        found = []
        if self.lost:
            found.append(f"{self.lost} lost")
        if self.doubled and self.mode == "transacted":
            found.append(f"{self.doubled} doubled")
        if self.lateness is not None and self.lateness.early:
            found.append(f"{self.lateness.early} early")
        return found

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``--json`` prints."""
        lateness = self.lateness
        details = dict(self.details)
        if lateness is not None:
            details["lateness_quantiles_ms"] = dict(zip(map(str, QUANTILES), lateness.quantiles, strict=True))
        if self.baseline is not None and self.baseline.lateness is not None:
            quantiles = self.baseline.lateness.quantiles
            details["baseline_quantiles_ms"] = dict(zip(map(str, QUANTILES), quantiles, strict=True))
        return {
            "workload": self.workload,
            "system": SYSTEM,
            "version": version(SYSTEM),
            "mode": self.mode,
            "params": self.params,
            "records_per_s": self.records_per_s,
            "baseline": None if self.baseline is None else self.baseline.as_json(),
            "ratio": self.ratio,
            "lateness_ms": None if lateness is None else lateness.as_json(),
            "lost": self.lost,
            "doubled": self.doubled,
            "rss_peak_mb": {"worker": self.rss_worker_mb, "scheduler": self.rss_scheduler_mb},
            "header_bytes": {"retry": self.header_retry, "dead_letter": self.header_dead_letter},
            "cpu_us_per_record": self.cpu_us_per_record,
            "seconds": self.seconds,
            "details": details,
        }
