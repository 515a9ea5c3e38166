"""A process traces if its program has a provider of tracers, or if OpenTelemetry's variables ask for it."""

import logging
import sys
from types import ModuleType
from unittest.mock import Mock

import pytest
from opentelemetry import trace

from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.consumers.handlers.tracing import NOT_TRACED, carrier, with_tracing
from kafka_redelivery.consumers.telemetry.tracing import asked_for, spans_exported, tracing

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", ENDPOINT, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("variables", "asked"),
    [
        ({}, False),
        ({ENDPOINT: "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", ENDPOINT: "http://collector:4318"}, False),
        ({"OTEL_SDK_DISABLED": "True", ENDPOINT: "http://collector:4318"}, False),
    ],
)
def test_the_variables(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], *, asked: bool) -> None:
    """Those that each OpenTelemetry SDK reads."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert asked_for() is asked


@pytest.mark.parametrize(
    ("provider", "on"), [(trace.ProxyTracerProvider(), False), (trace.NoOpTracerProvider(), False), (Mock(), True)]
)
def test_the_provider_of_the_program(monkeypatch: pytest.MonkeyPatch, provider: object, *, on: bool) -> None:
    """A program that only has the API installed has none."""
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    assert tracing() is on


def test_without_traces_a_handler_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is done for a record."""
    monkeypatch.setattr(trace, "get_tracer_provider", trace.ProxyTracerProvider)
    handler = as_handler(print)
    assert with_tracing(handler) is handler
    assert carrier()() is NOT_TRACED


def test_a_missing_package_stops_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The log says what to install."""
    monkeypatch.setenv(ENDPOINT, "http://collector:4318")
    monkeypatch.setattr(trace, "get_tracer_provider", trace.ProxyTracerProvider)
    monkeypatch.setitem(sys.modules, "kafka_redelivery.consumers.telemetry.span_export", None)
    with caplog.at_level(logging.WARNING), spans_exported("billing"):
        assert not tracing()
    assert "kafka-redelivery[otel]" in caplog.text


def test_nothing_is_exported_beside_the_programs_own_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is imported only where it is needed."""
    monkeypatch.setenv(ENDPOINT, "http://collector:4318")
    monkeypatch.setattr(trace, "get_tracer_provider", Mock)
    monkeypatch.setitem(sys.modules, "kafka_redelivery.consumers.telemetry.span_export", ModuleType("empty"))
    with spans_exported("billing"):
        pass
