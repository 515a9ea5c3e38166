"""The command line whose calls to Kafka time out within seconds, so that a short outage exceeds all of them."""

from typing import Final

import kafka_redelivery.consumers.writes.engine
import kafka_redelivery.transport.clients.auto_writer
import kafka_redelivery.transport.clients.outage
import kafka_redelivery.transport.clients.reader
import kafka_redelivery.transport.clients.takeover
import kafka_redelivery.transport.clients.topic_watch
import kafka_redelivery.transport.clients.writer
from kafka_redelivery.cli.main import app

PROGRAM: Final = ("-m", "tests.crash.hasty")


def shorten() -> None:
    """Shorten the time-outs of calls and of retries, and look at the topics often."""
    kafka_redelivery.transport.clients.topic_watch._INTERVAL_S = 2.0
    kafka_redelivery.consumers.writes.engine.GIVE_UP_AFTER_S = 6.0
    kafka_redelivery.transport.clients.auto_writer._CALL_TIMEOUT_S = 3.0
    kafka_redelivery.consumers.writes.engine._FAST_S = 0.5
    kafka_redelivery.transport.clients.outage.RETRY_TIMEOUT_S = 4.0
    kafka_redelivery.transport.clients.reader._CALL_TIMEOUT_S = 3.0
    kafka_redelivery.transport.clients.writer._CALL_TIMEOUT_S = 3.0
    kafka_redelivery.transport.clients.writer._OFFSETS_TIMEOUT_S = 2.0
    kafka_redelivery.transport.clients.takeover._TIMEOUT_S = 8.0
    kafka_redelivery.transport.clients.takeover._ATTEMPT_S = 2.0


if __name__ == "__main__":
    shorten()
    app()
