"""What the handler's process tells of records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipeline.batch_context import Emitted
from topology.decision import Failure, FailureKind
from topology.lineage import Lineage


class Done(NamedTuple):
    """What became of the next records of a run; indexes count from the first of these."""

    number: int
    failures: Sequence[tuple[int, Failure]] = ()
    lineages: Sequence[Lineage] = ()
    lateness: Sequence[tuple[int, int]] = ()
    seconds: Sequence[float] = ()
    emitted: Sequence[Emitted] = ()
    """What was emitted; the rest as of :class:`consumers.unit.Unit`."""

    @property
    def critical(self) -> bool:
        """Whether nothing may be done after it."""
        return any(failure.kind is FailureKind.CRITICAL for _, failure in self.failures)
