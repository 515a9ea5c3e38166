"""The producer of a transactional writer, and the ``transactional.id`` that it owns until it goes on with another."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from confluent_kafka import KafkaException, Producer

from kafka_redelivery.transport.client_config import Config
from kafka_redelivery.transport.clients import producer_settings
from kafka_redelivery.transport.clients.outage import Outage
from kafka_redelivery.transport.clients.takeover import Endurance, UnendedTransactionError, take_over
from kafka_redelivery.transport.errors import WriterFencedError

_log = logging.getLogger(__name__)

_FRESH_AFTER = 4
"""So many writes in a row are aborted before the next one has a fresh id; then twice as many, and so on.

The id may be what makes them fail: its coordinator, or what that has stored for it. Each id stays known to Kafka for
days, so an outage must not use many.
"""

_ONE_RECORD_PER_BATCH: Config = {
    "batch.num.messages": 1,
    "max.in.flight.requests.per.connection": 1,
    "linger.ms": 0,
}
"""A batch is sent only when the one before it is answered."""


class OwnedProducer:
    """Creates a producer, and replaces it by another one. Used by one thread at a time."""

    client: Producer

    def __init__(self, config: Config, endurance: Endurance | None, topic: str | None) -> None:
        """Create the producer.

        Args:
            config: its settings.
            endurance: makes fresh ids; ``None`` = the id never changes.
            topic: see :func:`take_over`.

        Raises:
            TransportError: the broker does not answer, or does not allow transactions.
        """
        self.config = config
        """The settings, with the present id. The next producer gets them."""

        self._endurance = endurance
        self._outage = None if endurance is None else Outage("writer", endurance.report)
        self._topic = topic
        self._aborts, self._fresh_at = 0, _FRESH_AFTER
        self._compresses_more = False
        self.client = take_over(config, topic)

    @property
    def id(self) -> str:
        """The present ``transactional.id``."""
        return str(self.config["transactional.id"])

    @property
    def compresses_best(self) -> bool:
        """Whether the producer has the best compression."""
        return self._compresses_more or producer_settings.best(self.config) == self.config

    @contextmanager
    def compressing_more(self) -> Iterator[None]:
        """Have a producer with the best compression during the block. No transaction may be open at its ends."""
        self._compresses_more, fenced = True, False
        try:
            self.replace()
            yield
        except WriterFencedError:
            fenced = True  # another producer with this id would fence its owner
            raise
        finally:
            self._compresses_more = False
            if not fenced:
                self.replace()

    def replace(self, *, one_per_batch: bool = False) -> None:
        """Replace the producer by another one with the same id, which ends an open transaction."""
        self.drop()
        while True:
            config = producer_settings.best(self.config) if self._compresses_more else self.config
            if one_per_batch:
                config = config | _ONE_RECORD_PER_BATCH
            try:
                self.client = take_over(config, self._topic, self._outage)
            except UnendedTransactionError as error:
                if not self.take_fresh_id():
                    raise
                _log.warning("%s; going on with transactional.id %s", error, self.id)
            else:
                return

    def take_fresh_id(self) -> bool:
        """Give the id up: the next producer has one that no process has. Return ``False`` if this one never does."""
        if self._endurance is None:
            return False
        self.config = self.config | {"transactional.id": self._endurance.fresh_id()}
        return True

    def committed(self) -> None:
        """Note that a transaction was committed, or a record accepted."""
        self._aborts, self._fresh_at = 0, _FRESH_AFTER

    def aborted(self, cause: Exception) -> None:
        """Note an aborted transaction, which has ended or ends by its time-out; after some in a row take a fresh id."""
        self._aborts += 1
        if self._aborts >= self._fresh_at and self.take_fresh_id():
            self._fresh_at *= 2
            _log.warning(
                "%d writes in a row were aborted, the last one because: %s; this one goes on with transactional.id %s",
                self._aborts,
                cause,
                self.id,
            )
            self.replace()

    def drop(self) -> None:
        """Release the producer without ending its transaction."""
        if hasattr(self, "client"):  # missing if creating one failed
            with suppress(KafkaException, SystemError):  # every call raises a fatal error again
                self.client.purge()
                self.client.poll(0)
            del self.client
