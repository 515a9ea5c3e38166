"""Requests a probe of the process in the same container, for ``HEALTHCHECK``.

Run it as ``python -I -m kafka_redelivery.cli.probe /healthz``. It imports almost nothing, because it runs every few
seconds.
"""

from __future__ import annotations

import http.client
import os
import sys

_ANSWER_S = 2.0
_OK = 200


def main(path: str = "/healthz") -> int:
    """Return 0 if the probe answers 200, otherwise 1; print the answer.

    The environment variable ``REDELIVERY_METRICS__PORT``, which the image sets, names the port.
    """
    connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["REDELIVERY_METRICS__PORT"]), timeout=_ANSWER_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        status, reason = answer.status, answer.read().decode().strip()
    except OSError as error:
        status, reason = 0, f"no answer: {error}"
    finally:
        connection.close()
    sys.stdout.write(f"{reason}\n")
    return 0 if status == _OK else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
