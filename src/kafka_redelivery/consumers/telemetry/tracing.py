"""Whether this process traces the calls of its handlers with OpenTelemetry, an optional dependency (`[otel]`).

That is decided once, at the start. A process without traces does not import OpenTelemetry.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_log = logging.getLogger(__name__)

CLOSING_OF_A_CHILD_S: Final = 1.0
"""How long the last spans of a child process may take: its parent kills it two seconds after it has closed the pipe."""


def tracing() -> bool:
    """Whether the program has set a provider of tracers, or :func:`spans_exported` has."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return False
    return not isinstance(trace.get_tracer_provider(), (trace.ProxyTracerProvider, trace.NoOpTracerProvider))


def asked_for() -> bool:
    """Whether OpenTelemetry's own environment variables name a place for spans."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = os.environ.get("OTEL_TRACES_EXPORTER", "").strip()
    if exporter:
        return exporter != "none"
    return any(os.environ.get(f"OTEL_EXPORTER_OTLP_{each}ENDPOINT") for each in ("TRACES_", ""))


@contextmanager
def spans_exported(group: str, closing_s: float = 3.0) -> Iterator[None]:
    """Export spans while the block runs, in a process of ours whose environment asks for it.

    If the program has a provider already, that one stays. Nothing that goes wrong here stops the process.

    Args:
        group: the name of the service, unless the environment has one; empty = that of the parent process.
        closing_s: how long the last spans may take. A collector that is away must not hold the shutdown.
    """
    if tracing() or not asked_for():
        yield
        return
    try:
        from kafka_redelivery.consumers.telemetry.span_export import exported  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        _log.warning("no traces: %s; install kafka-redelivery[otel], or set OTEL_SDK_DISABLED=true", error)
        yield
        return
    with exported(group, closing_s):
        yield
