"""For each bucket of the histogram of handler calls the last traced call, so that a metric leads to a trace."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from prometheus_client.samples import Exemplar

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.topology.metric_catalogue import HANDLER_TIME

TRACED_CALLS: Final[dict[tuple[str, int], Exemplar]] = {}
"""By consumer group and number of the bucket. Empty in a process without traces."""


def note_call(group: str, seconds: float, trace_id: str, span_id: str) -> None:
    """Note a call of a handler that is exported as a span."""
    labels = {"trace_id": trace_id, "span_id": span_id}
    TRACED_CALLS[group, bisect_left(HANDLER_TIME.buckets, seconds)] = Exemplar(labels, seconds, wall_clock_ms() / 1000)
