"""Runs a function of this package in its own process and returns its result.

``python -m tests.bench.actor MODULE:FUNCTION JSON``

What is compared with a worker or scheduler has its own interpreter, as they have.
"""

import importlib
import json
import subprocess
import sys
from typing import Any

from kafka_redelivery.transport.broker.guard import GuardedProcess


class Actor:
    """A function that runs in another process and ends by itself."""

    def __init__(self, function: str, **parameters: object) -> None:
        """Start ``module:function`` of this package with keyword arguments that JSON can hold."""
        self._name = function
        self._child = GuardedProcess(
            [sys.executable, "-m", "tests.bench.actor", function, json.dumps(parameters)],
            grace_seconds=1,
            stdout=subprocess.PIPE,
        )

    def result(self) -> dict[str, Any]:
        """Wait until the function ends and return its result.

        Raises:
            RuntimeError: the function failed; its traceback is on stderr.
        """
        assert self._child.stdout is not None
        answer = self._child.stdout.read()
        code = self._child.wait()
        if code:
            raise RuntimeError(f"{self._name} ended with {code}")
        found: dict[str, Any] = json.loads(answer)
        return found

    def end(self) -> None:
        """Kill the process, for cleaning up."""
        self._child.kill()


if __name__ == "__main__":
    module, _, name = sys.argv[1].partition(":")
    answer = getattr(importlib.import_module(f"tests.bench.{module}"), name)(**json.loads(sys.argv[2]))
    sys.stdout.write(json.dumps(answer))
