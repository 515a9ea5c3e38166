"""The options of a run."""

from dataclasses import dataclass, replace
from pathlib import Path

from kafka_redelivery.topology.config.settings import DEFAULT_WIDTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of the command line. ``None`` leaves the choice to the workload."""

    n: int | None = None
    mode: str = "transacted"
    value_bytes: int = 300
    keys: int = 10_000
    partitions: int = 8
    max_partitions: int | None = None
    slots: int = 1
    batch: int = 0
    dependency: bool = False
    output: bool = False
    persist_counts: bool = False
    journal: bool = False
    otel: bool = False
    fail_ratio: float = 1.0
    pending: int = 50_000
    rate: int = 1000
    seconds: float = 10
    repeat: int = 3
    session_s: float = 45
    transaction_s: float = 30
    avro: bool = False
    quick: bool = False
    profile: Path | None = None

    @property
    def ready_partitions(self) -> int:
        """Partitions of the ready topic."""
        return min(self.partitions, DEFAULT_WIDTH if self.max_partitions is None else self.max_partitions)

    def with_changes(self, **changes: object) -> "Options":
        """Return a copy with these changes."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def params(self, *names: str) -> dict[str, object]:
        """Return the named options for a result."""
        return {name: getattr(self, name) for name in names}
