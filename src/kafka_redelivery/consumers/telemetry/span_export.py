"""Exports spans as OpenTelemetry's environment variables say. Imported only by processes that do."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from threading import Thread
from typing import Final

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import set_tracer_provider

_log = logging.getLogger(__name__)

_PROTOCOLS: Final = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


@contextmanager
def exported(group: str, closing_s: float) -> Iterator[None]:
    """Set the provider of tracers, and export what is left at the end. The arguments are those of `spans_exported`."""
    exporters = list(_exporters())
    if not exporters:
        yield
        return
    if group and "service.name=" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        os.environ.setdefault("OTEL_SERVICE_NAME", group)  # also for the child processes
    provider = TracerProvider(shutdown_on_exit=False)
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    set_tracer_provider(provider)
    try:
        yield
    finally:
        closing = Thread(target=provider.shutdown, name="spans", daemon=True)
        closing.start()
        closing.join(closing_s)


def _exporters() -> Iterator[SpanExporter]:
    for name in (os.environ.get("OTEL_TRACES_EXPORTER") or "otlp").split(","):
        wanted = name.strip()
        if wanted == "otlp":
            protocols = (os.environ.get(f"OTEL_EXPORTER_OTLP_{each}PROTOCOL") for each in ("TRACES_", ""))
            protocol = next(filter(None, protocols), "http/protobuf")
            wanted = _PROTOCOLS.get(protocol, f"otlp with protocol {protocol}")
        found = entry_points(group="opentelemetry_traces_exporter", name=wanted)
        if not found:
            _log.warning("no traces to %s: no installed package has this exporter", wanted)
        for each in found:
            try:
                yield each.load()()
            except Exception as error:  # noqa: BLE001 - the exporter's own, such as a bad URL
                _log.warning("no traces to %s: %s: %s", wanted, type(error).__name__, error)
