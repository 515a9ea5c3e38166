"""The command line in a process whose commits do not return while the file ``HANGING_COMMITS`` exists."""

import os
import threading
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

import kafka_redelivery.transport.clients.takeover
from kafka_redelivery.cli.main import app
from tests.scenarios.replaced_clients import opens

PROGRAM: Final = ("-m", "tests.scenarios.hanging_commits")
FILE: Final = "HANGING_COMMITS"
"""The environment variable with the path of the file."""


class _HangingProducer(Producer):
    def commit_transaction(self, *args: Any) -> None:  # noqa: ANN401 - handed on as they are
        while Path(os.environ[FILE]).exists():
            threading.Event().wait(0.05)
        super().commit_transaction(*args)


if __name__ == "__main__":
    kafka_redelivery.transport.clients.takeover.open_producer = opens(_HangingProducer)  # type: ignore[attr-defined]
    app()
