"""A bank for the quick start: charges everything once, and is up only while this runs."""

import json
from http.server import BaseHTTPRequestHandler, HTTPServer

PORT = 8099


class Bank(BaseHTTPRequestHandler):
    """Answers each charge with a receipt. The same identity gets the receipt that it had before."""

    receipts: dict[str, dict[str, object]] = {}  # noqa: RUF012 - one bank, one memory

    def do_POST(self) -> None:
        """Charge one order."""
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        identity = self.headers["Idempotency-Key"]
        receipt = self.receipts.setdefault(identity, {"charged": order["amount"], "number": len(self.receipts) + 1})
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(receipt).encode())


if __name__ == "__main__":
    with HTTPServer(("localhost", PORT), Bank) as bank:
        print(f"the bank is open at http://localhost:{PORT}; Ctrl-C closes it", flush=True)
        bank.serve_forever()
