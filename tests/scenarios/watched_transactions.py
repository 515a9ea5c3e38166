"""The command line in a process that logs whether each of its transactions carries offsets."""

import sys
from typing import Any, Final

from confluent_kafka import Producer

import kafka_redelivery.transport.clients.takeover
from kafka_redelivery.cli.main import app
from tests.scenarios.replaced_clients import opens

PROGRAM: Final = ("-m", "tests.scenarios.watched_transactions")
WITH_OFFSETS: Final = "committing a transaction with offsets"
WITHOUT_OFFSETS: Final = "committing a transaction without offsets"


class _WatchedProducer(Producer):
    has_offsets = False

    def begin_transaction(self, *args: Any) -> None:  # noqa: ANN401 - handed on as they are
        self.has_offsets = False
        super().begin_transaction(*args)

    def send_offsets_to_transaction(self, *args: Any) -> None:  # noqa: ANN401
        super().send_offsets_to_transaction(*args)
        self.has_offsets = True

    def commit_transaction(self, *args: Any) -> None:  # noqa: ANN401
        print(WITH_OFFSETS if self.has_offsets else WITHOUT_OFFSETS, file=sys.stderr, flush=True)  # noqa: T201
        super().commit_transaction(*args)


if __name__ == "__main__":
    kafka_redelivery.transport.clients.takeover.open_producer = opens(_WatchedProducer)  # type: ignore[attr-defined]
    app()
