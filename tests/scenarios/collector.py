"""A collector of traces: receives what OpenTelemetry's exporter sends over HTTP, in protobuf."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue


class Link(NamedTuple):
    """A link of a span."""

    span: str
    kind: str
    message_id: str
    """Of the record that the link belongs to; empty if the span has one record."""


class Span(NamedTuple):
    """A span as it was exported."""

    name: str
    service: str
    trace: str
    id: str
    parent: str
    links: tuple[Link, ...]
    attributes: dict[str, object]
    began_ns: int
    failed: bool


class Collector:
    """What has arrived."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._spans: list[Span] = []

    def spans(self, name: str) -> list[Span]:
        """Return the spans of a name, the earliest first."""
        return sorted((each for each in self._spans if each.name == name), key=lambda each: each.began_ns)

    def of_record(self, name: str, message_id: str) -> list[Span]:
        """Return those of its spans that have a record."""
        return [
            each
            for each in self.spans(name)
            if message_id in {each.attributes.get("messaging.message.id"), *(link.message_id for link in each.links)}
        ]

    def add(self, body: bytes) -> None:
        """Receive a request."""
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = str(_plain(resource.resource.attributes).get("service.name", ""))
            for scope in resource.scope_spans:
                self._spans += [
                    Span(
                        each.name,
                        service,
                        each.trace_id.hex(),
                        each.span_id.hex(),
                        each.parent_span_id.hex(),
                        tuple(_link(link.span_id, link.attributes) for link in each.links),
                        _plain(each.attributes),
                        each.start_time_unix_nano,
                        each.status.code == 2,
                    )
                    for each in scope.spans
                ]


def _plain(attributes: Iterable[KeyValue]) -> dict[str, object]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value") or "string_value") for each in attributes}


def _link(span: bytes, attributes: Iterable[KeyValue]) -> Link:
    found = _plain(attributes)
    return Link(span.hex(), str(found["kafka_redelivery.link"]), str(found.get("messaging.message.id", "")))


@contextmanager
def collecting(received: Callable[[bytes], None] | None = None) -> Iterator[Collector]:
    """Run a collector while the block runs; ``received`` gets its requests in place of :meth:`Collector.add`."""

    class Receiving(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            (received or collector.add)(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiving) as server:
        collector = Collector(f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield collector
        finally:
            server.shutdown()
