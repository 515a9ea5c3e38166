"""A schema registry on loopback: the parts of its HTTP interface that are used here, over a real socket."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

import pytest


@dataclass
class Registry:
    """What the registry holds, what it was asked, and what it answers instead if it is told to."""

    url: str = ""
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    versions: dict[tuple[str, int], int] = field(default_factory=dict)
    password: str | None = None
    requests: list[str] = field(default_factory=list)
    instead: tuple[int, bytes] | None = None
    has_guids: bool = True
    seconds: float = 0.0
    """How long each answer takes."""

    def add(
        self, schema_id: int, schema: object, subject: str = "flights-value", version: int = 1, **more: object
    ) -> None:
        """Register a schema; ``more`` are further fields of the answer (``schemaType``, ``references``).

        The text of one for Protobuf is that of the answer.
        """
        text = str(schema) if more.get("schemaType") == "PROTOBUF" else json.dumps(schema)
        guid = UUID(int=schema_id) if self.has_guids else None
        self.schemas[schema_id] = {"schema": text, **({"guid": str(guid)} if guid else {}), **more}
        self.versions[subject, version] = schema_id

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, object]:
        """Return the status and the JSON a registry would give."""
        match [unquote(part) for part in path.strip("/").split("/")]:
            case ["schemas", "ids", schema_id] if method == "GET":
                found = self.schemas.get(int(schema_id))
                return (200, found) if found else (404, {"error_code": 40403, "message": "Schema not found"})
            case ["schemas", "ids", schema_id, "versions"] if method == "GET":
                found_in = [each for each, found in self.versions.items() if found == int(schema_id)]
                return 200, [{"subject": subject, "version": version} for subject, version in found_in]
            case ["schemas", "guids", guid] if method == "GET":
                found = self.schemas.get(UUID(guid).int)
                return (200, found) if found else (404, {"error_code": 40403, "message": "Schema not found"})
            case ["subjects", subject, "versions", "latest"] if method == "GET":
                versions = [number for name, number in self.versions if name == subject]
                if not versions:
                    return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
                return 200, self._registered(subject, max(versions), self.versions[subject, max(versions)])
            case ["subjects", subject, "versions", version] if method == "GET":
                versioned = self.versions.get((subject, int(version)))
                if versioned is None:
                    return 404, {"error_code": 40402, "message": "Version not found."}
                return 200, self._registered(subject, int(version), versioned)
            case ["subjects", subject] if method == "POST":
                return self._look_up(subject, json.loads(body)["schema"])
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _look_up(self, subject: str, schema: str) -> tuple[int, object]:
        mine = {version: schema_id for (name, version), schema_id in self.versions.items() if name == subject}
        if not mine:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        for version, schema_id in mine.items():
            if _meaning(self.schemas[schema_id]["schema"]) == _meaning(schema):
                return 200, self._registered(subject, version, schema_id)
        return 404, {"error_code": 40403, "message": "Schema not found"}

    def _registered(self, subject: str, version: int, schema_id: int) -> object:
        return {"subject": subject, "version": version, "id": schema_id, **self.schemas[schema_id]}


def _meaning(text: str) -> object:
    return json.loads(text) if text[:1] in '{["' else text


def handler_for(registry: Registry) -> type[BaseHTTPRequestHandler]:
    """Return the handler that serves the registry."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def log_message(self, *_args: object) -> None:
            """Keep the test's output clean."""

        def _serve(self) -> None:
            path = urlsplit(self.path).path
            as_text = "format=serialized" not in self.path and self.command == "GET"
            registry.requests.append(f"{self.command} {path}")
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            time.sleep(registry.seconds)
            status, answer = self._answer(path, body, as_text=as_text)
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def _answer(self, path: str, body: bytes, *, as_text: bool) -> tuple[int, bytes]:
            if registry.instead is not None:
                return registry.instead
            if registry.password is not None:
                expected = "Basic " + base64.b64encode(registry.password.encode()).decode()
                if self.headers.get("Authorization") != expected:
                    return 401, b'{"error_code": 401, "message": "Unauthorized"}'
            status, answer = registry.answer(self.command, path, body)
            if as_text and isinstance(answer, dict) and answer.get("schemaType") == "PROTOBUF":
                answer = {**answer, "schema": 'syntax = "proto3";'}
            return status, json.dumps(answer).encode()

    return Handler


@pytest.fixture
def registry() -> Iterator[Registry]:
    """A registry without schemas."""
    registry = Registry()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_for(registry))
    registry.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield registry
    server.shutdown()
    server.server_close()
    thread.join()
