"""Runs a function in a process of its own and takes its answer over.

``python -m tests.bench.actor MODULE:FUNCTION JSON``

Whatever is compared with a worker or scheduler has an interpreter to itself, as they have.
"""

import importlib
import json
import subprocess
import sys
from typing import Any

from transport.guard import Guarded


class Actor:
    """A function under way elsewhere. It ends by itself."""

    def __init__(self, function: str, **parameters: object) -> None:
        """Start ``module:function`` of this package with such keyword arguments, which JSON can hold."""
        self._name = function
        self._child = Guarded(
            [sys.executable, "-m", "tests.bench.actor", function, json.dumps(parameters)],
            grace_seconds=1,
            stdout=subprocess.PIPE,
        )

    def result(self) -> dict[str, Any]:
        """Wait for the end, and what the function returned.

        Raises:
            RuntimeError: it failed; its traceback is on stderr.
        """
        assert self._child.stdout is not None
        answer = self._child.stdout.read()
        code = self._child.wait()
        if code:
            raise RuntimeError(f"{self._name} ended with {code}")
        found: dict[str, Any] = json.loads(answer)
        return found

    def end(self) -> None:
        """Whatever it does, for cleaning up."""
        self._child.kill()


if __name__ == "__main__":
    module, _, name = sys.argv[1].partition(":")
    answer = getattr(importlib.import_module(f"tests.bench.{module}"), name)(**json.loads(sys.argv[2]))
    sys.stdout.write(json.dumps(answer))
