"""The bare loop at its best: the batch size is not ours to choose for it."""

from typing import Any

from tests.bench.bed import Bed
from tests.bench.options import Options
from topology.settings import LimitsSection

OWN_BATCH = LimitsSection().batch_records
"""The worker's."""

_BATCHES = (OWN_BATCH, 1000, 500)
"""Tried for the bare loop."""


def tune(bed: Bed, n: int, source: str, options: Options, **bare: Any) -> dict[int, float]:  # noqa: ANN401 - handed on
    """How fast the bare loop is with each batch size."""
    found = {}
    for batch in _BATCHES[:1] if options.quick else _BATCHES:
        bed.say(f"bare loop with batches of {batch}")
        found[batch] = bed.act(**bare, source=source, n=n, batch=batch)["records_per_s"]
    return found


def fastest_txcopy(bed: Bed, n: int, source: str, options: Options) -> tuple[str, float]:
    """What the limit of everything transactional is called, and its records/s."""
    target = bed.topic("bare-output", options.partitions)
    tried = tune(bed, n, source, options, function="bare:txcopy", target=target)
    batch = max(tried, key=lambda size: tried[size])
    return f"txcopy, batches of {batch}", tried[batch]
