"""Classic's dead-letter strategies as configured: what they accept and where it goes.

Source: ``AbstractDeadLetterStrategy`` and its subclasses.
"""

from __future__ import annotations

from dataclasses import dataclass

from topology.classic.destination import Destination, Kind, named

SHARED_QUEUE = Destination(Kind.QUEUE, "ActiveMQ.DLQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStrategy:
    """One dead-letter queue for many destinations; what a destination without any strategy has.

    ``expiration`` is how long a dead letter lives in ms; 0 or less = for ever. ``max_audit_depth`` and
    ``max_producers_to_audit`` bound the memory for duplicates (:mod:`topology.classic.audit`).
    """

    process_expired: bool = True
    process_non_persistent: bool = False
    expiration: int = 0
    enable_audit: bool = True
    max_audit_depth: int = 2048
    max_producers_to_audit: int = 64
    dead_letter_queue: Destination = SHARED_QUEUE

    def accepts(self, *, persistent: bool, expired: bool) -> bool:
        """Whether such a message becomes a dead letter, apart from the check for duplicates."""
        return (persistent or self.process_non_persistent) and (not expired or self.process_expired)

    def destination_for(self, destination: Destination, subscriber: str | None = None) -> Destination:
        """Where the dead letters of a destination go."""
        del destination, subscriber
        return self.dead_letter_queue


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardingStrategy(SharedStrategy):
    """Nothing becomes a dead letter."""

    def accepts(self, *, persistent: bool, expired: bool) -> bool:
        """Never."""
        del persistent, expired
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class IndividualStrategy:
    """A dead-letter queue (or topic) for each destination, named with prefix and suffix.

    ``destination_per_durable_subscriber`` puts the subscriber between a topic's name and the suffix.
    The others as in :class:`SharedStrategy`.
    """

    process_expired: bool = True
    process_non_persistent: bool = False
    expiration: int = 0
    enable_audit: bool = True
    max_audit_depth: int = 2048
    max_producers_to_audit: int = 64
    queue_prefix: str = "ActiveMQ.DLQ.Queue."
    topic_prefix: str = "ActiveMQ.DLQ.Topic."
    queue_suffix: str | None = None
    topic_suffix: str | None = None
    use_queue_for_queue_messages: bool = True
    use_queue_for_topic_messages: bool = True
    destination_per_durable_subscriber: bool = False

    def accepts(self, *, persistent: bool, expired: bool) -> bool:
        """Whether such a message becomes a dead letter, apart from the check for duplicates."""
        return (persistent or self.process_non_persistent) and (not expired or self.process_expired)

    def destination_for(self, destination: Destination, subscriber: str | None = None) -> Destination:
        """Where the dead letters of a destination go.

        Args:
            destination: of the failed message.
            subscriber: of a topic, its durable subscriber; on Kafka the consumer group.
        """
        if destination.kind.is_queue:
            prefix, suffix, use_queue = self.queue_prefix, self.queue_suffix, self.use_queue_for_queue_messages
        else:
            prefix, suffix, use_queue = self.topic_prefix, self.topic_suffix, self.use_queue_for_topic_messages
        name = prefix + destination.name
        if self.destination_per_durable_subscriber and subscriber is not None and not destination.kind.is_queue:
            name += f".{subscriber}"
        return named(Kind.QUEUE if use_queue else Kind.TOPIC, name + (suffix or ""))


Strategy = SharedStrategy | IndividualStrategy | DiscardingStrategy

DEFAULT_STRATEGY = SharedStrategy()
