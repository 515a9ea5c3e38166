"""Classic's dead-letter strategies: which messages they accept, and to which destination these go.

Source: ``AbstractDeadLetterStrategy`` and its subclasses.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_redelivery.topology.classic.destination import Destination, DestinationKind, named

SHARED_QUEUE = Destination(DestinationKind.QUEUE, "ActiveMQ.DLQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class AbstractStrategy:
    """The properties that all strategies have.

    A dead letter expires after ``expiration`` ms; 0 or less means never. ``max_audit_depth`` and
    ``max_producers_to_audit`` limit how many messages the audit for duplicates remembers
    (:mod:`topology.classic.audit`).
    """

    process_expired: bool = True
    process_non_persistent: bool = False
    expiration: int = 0
    enable_audit: bool = True
    max_audit_depth: int = 2048
    max_producers_to_audit: int = 64

    def accepts(self, *, persistent: bool, expired: bool) -> bool:
        """Whether a message of this kind becomes a dead letter, unless it is a duplicate."""
        return (persistent or self.process_non_persistent) and (not expired or self.process_expired)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStrategy(AbstractStrategy):
    """One dead-letter queue for many destinations; the default of a destination without a strategy."""

    dead_letter_queue: Destination = SHARED_QUEUE

    def destination_for(self, destination: Destination, subscriber: str | None = None) -> Destination:
        """Return the destination of the dead letters, the same for all destinations."""
        del destination, subscriber
        return self.dead_letter_queue


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardingStrategy(SharedStrategy):
    """Discards every message instead of dead-lettering it."""

    def accepts(self, *, persistent: bool, expired: bool) -> bool:
        """False for every message."""
        del persistent, expired
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class IndividualStrategy(AbstractStrategy):
    """One dead-letter queue or topic per destination: its name with a prefix and a suffix.

    ``destination_per_durable_subscriber`` adds the subscriber between the name of a topic and the suffix.
    """

    queue_prefix: str = "ActiveMQ.DLQ.Queue."
    topic_prefix: str = "ActiveMQ.DLQ.Topic."
    queue_suffix: str | None = None
    topic_suffix: str | None = None
    use_queue_for_queue_messages: bool = True
    use_queue_for_topic_messages: bool = True
    destination_per_durable_subscriber: bool = False

    def destination_for(self, destination: Destination, subscriber: str | None = None) -> Destination:
        """Return the destination of the dead letters of a destination.

        Args:
            destination: the destination of the failed message.
            subscriber: the durable subscriber, if it is a topic; on Kafka the consumer group.
        """
        if destination.kind.is_queue:
            prefix, suffix, use_queue = self.queue_prefix, self.queue_suffix, self.use_queue_for_queue_messages
        else:
            prefix, suffix, use_queue = self.topic_prefix, self.topic_suffix, self.use_queue_for_topic_messages
        name = prefix + destination.name
        if self.destination_per_durable_subscriber and subscriber is not None and not destination.kind.is_queue:
            name += f".{subscriber}"
        return named(DestinationKind.QUEUE if use_queue else DestinationKind.TOPIC, name + (suffix or ""))


Strategy = SharedStrategy | IndividualStrategy | DiscardingStrategy

DEFAULT_STRATEGY = SharedStrategy()
