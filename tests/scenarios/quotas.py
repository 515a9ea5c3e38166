"""Producer quotas of clients. Neither the product nor the Python client needs this request, so it is made by hand."""

import socket
import struct

_ALTER_CLIENT_QUOTAS = 49
_ANSWER_S = 30.0


def limit_producer(servers: str, client_id: str, bytes_per_s: float) -> None:
    """Limit what the broker accepts from the producers with a ``client.id``."""
    code = _error_code(servers, _request(client_id, bytes_per_s))
    assert code == 0, f"the broker answered with the error {code}"


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _request(client_id: str, bytes_per_s: float) -> bytes:
    """Version 0 of AlterClientQuotas: one entity, one value, really set."""
    header = struct.pack(">hhi", _ALTER_CLIENT_QUOTAS, 0, 1) + _text("test")
    entity = struct.pack(">i", 1) + _text("client-id") + _text(client_id)
    value = struct.pack(">i", 1) + _text("producer_byte_rate") + struct.pack(">db", bytes_per_s, 0)
    return header + struct.pack(">i", 1) + entity + value + struct.pack(">b", 0)


def _error_code(servers: str, request: bytes) -> int:
    """Send a request and return the error code of its only entry."""
    host, port = servers.split(",", maxsplit=1)[0].rsplit(":", 1)
    with socket.create_connection((host, int(port)), _ANSWER_S) as connection, connection.makefile("rb") as answer:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", answer.read(4))
        body = answer.read(size)
    _, _throttle_ms, entries, code = struct.unpack(">iiih", body[:14])
    assert entries == 1
    return int(code)
