"""A worker without traces does not import OpenTelemetry, so it needs not be installed and costs nothing."""

import os
import subprocess
import sys


def test_opentelemetry_is_not_imported() -> None:
    """Neither by the modules of a worker, nor when its handlers are loaded."""
    script = (
        "import sys\n"
        "from kafka_redelivery.consumers import app\n"
        "from kafka_redelivery.consumers.handlers.handler import as_handler\n"
        "from kafka_redelivery.consumers.handlers.tracing import carrier, with_tracing\n"
        "from kafka_redelivery.consumers.telemetry.tracing import spans_exported\n"
        "with spans_exported('billing'):\n"
        "    with_tracing(as_handler(print)), carrier()\n"
        "print(*(name for name in sys.modules if name.startswith('opentelemetry')))"
    )
    unset = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run([sys.executable, "-c", script], env=unset, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
