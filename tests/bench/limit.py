"""The bare loop with its best batch size."""

from typing import Any

from kafka_redelivery.topology.config.settings import LimitsSection
from tests.bench.bed import Bed
from tests.bench.options import Options

OWN_BATCH = LimitsSection().batch_records
"""The worker's batch size."""

_BATCHES = (OWN_BATCH, 1000, 500)
"""Batch sizes tried for the bare loop."""


def tune(bed: Bed, n: int, source: str, options: Options, **bare: Any) -> dict[int, float]:  # noqa: ANN401 - handed on
    """Return the bare loop's records/s for each batch size."""
    found = {}
    for batch in _BATCHES[:1] if options.quick else _BATCHES:
        bed.report_progress(f"bare loop with batches of {batch}")
        found[batch] = bed.act(**bare, source=source, n=n, batch=batch)["records_per_s"]
    return found


def fastest_txcopy(bed: Bed, n: int, source: str, options: Options) -> tuple[str, float]:
    """Return name and records/s of the fastest transactional copy."""
    target = bed.topic("bare-output", options.partitions)
    tried = tune(bed, n, source, options, function="bare:txcopy", target=target)
    batch = max(tried, key=lambda size: tried[size])
    return f"txcopy, batches of {batch}", tried[batch]
