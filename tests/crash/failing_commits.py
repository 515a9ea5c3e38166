"""The hasty command line, whose commits time out unsent while the file ``FAILING_COMMITS`` exists."""

import os
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

import kafka_redelivery.transport.clients.takeover
from kafka_redelivery.cli.main import app
from tests.crash.hasty import shorten
from tests.scenarios.replaced_clients import opens

PROGRAM: Final = ("-m", "tests.crash.failing_commits")
FILE: Final = "FAILING_COMMITS"
"""The environment variable with the path of the file."""


class _FailingProducer(Producer):
    def commit_transaction(self, *args: Any) -> None:  # noqa: ANN401 - handed on as they are
        if Path(os.environ[FILE]).exists():
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        super().commit_transaction(*args)


if __name__ == "__main__":
    shorten()
    kafka_redelivery.transport.clients.takeover.open_producer = opens(_FailingProducer)  # type: ignore[attr-defined]
    app()
