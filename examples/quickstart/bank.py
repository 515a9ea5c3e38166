"""A bank for the quick start. It charges each order once, and is open while this script runs."""

import json
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

PORT = 8099


class Bank(BaseHTTPRequestHandler):
    """Returns a receipt for each charge; the same receipt for the same idempotency key."""

    receipts: dict[str, dict[str, object]] = {}  # noqa: RUF012 - shared by all requests

    def do_POST(self) -> None:
        """Charge one order."""
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        identity = self.headers["Idempotency-Key"]
        receipt = self.receipts.setdefault(identity, {"charged": order["amount"], "number": len(self.receipts) + 1})
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(receipt).encode())


if __name__ == "__main__":
    with HTTPServer(("localhost", PORT), Bank) as bank, suppress(KeyboardInterrupt):
        print(f"the bank is open at http://localhost:{PORT}; Ctrl-C closes it", flush=True)
        bank.serve_forever()
