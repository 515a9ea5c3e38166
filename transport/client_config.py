"""The client settings we start from, and how the user's own are laid over them.

Settings of the ``kafka`` section pass through by their own names; ``producer.``, ``consumer.`` and
``admin.`` in front of a name give it to that client alone.
"""

from __future__ import annotations

from collections.abc import Mapping

Value = str | int | float | bool
Config = dict[str, Value]

JAVA_PREFIX = "spark."
"""In front of a name: it is the Java client's, and for Spark alone."""

_CLIENTS = ("producer.", "consumer.", "admin.", JAVA_PREFIX)

_CONSUMER_DEFAULTS: Config = {
    "partition.assignment.strategy": "cooperative-sticky",
    # An idle fetch must not keep a resumed or sought partition waiting (half a second by default).
    "fetch.wait.max.ms": 20,
    # A prefetch of 64 MiB a partition would outlive any bound of ours on memory.
    "queued.max.messages.kbytes": 16_384,
    # A redelivery waits behind whatever the client has fetched ahead of it.
    "queued.min.messages": 1_000,
    # When that much is queued the client looks again after so long (a second by default).
    "fetch.queue.backoff.ms": 10,
}
LITTLE: Config = {
    # What waits need not be fetched long before it leaves.
    "queued.max.messages.kbytes": 4_096,
    "fetch.message.max.bytes": 262_144,
}
"""For a reader that holds little in memory."""

LEISURELY: Config = {
    # An idle fetch stays with the broker for so long; what arrives there ends it.
    "fetch.wait.max.ms": 500,
    "queued.min.messages": 1,
    **LITTLE,
}
"""For a reader that is in no hurry, and mostly idle."""

_CONSUMER_OURS: Config = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    # Start offsets are always given explicitly: an offset out of range is a fault, never a silent reset.
    "auto.offset.reset": "error",
}
_PRODUCER_DEFAULTS: Config = {
    "acks": "all",
    "linger.ms": 2,
    # The first write after a commit meets CONCURRENT_TRANSACTIONS and is tried again after this long:
    # with the default of 100 ms it is most of a transaction's time.
    "retry.backoff.ms": 2,
    "retry.backoff.max.ms": 100,
    "queue.buffering.max.messages": 1_000_000,
    # Java's: a key goes to the partition where every other producer of the house sends it.
    "partitioner": "murmur2_random",
    "compression.type": "lz4",
}
_PRODUCER_OURS: Config = {
    "enable.idempotence": True,
    "delivery.report.only.error": True,
}
_TRANSACTION_TIMEOUT_MS = 30_000
"""With the broker's scan every 10 s still inside the default session time-out of 45 s: a killed
process without a stable name holds its partitions that long anyway."""


def consumer_config(kafka: Mapping[str, Value], *, group: str, instance: str | None, of_tiers: bool = False) -> Config:
    """Settings of a consumer of ``group``; a stable instance name makes its membership static.

    One ``of_tiers`` fetches less ahead, since its records wait in Kafka.
    """
    defaults = _CONSUMER_DEFAULTS | LITTLE if of_tiers else _CONSUMER_DEFAULTS
    config = _for_client("consumer.", kafka, defaults) | _CONSUMER_OURS
    if is_new_protocol(config):
        config.pop("partition.assignment.strategy", None)
    config["group.id"] = group
    if instance is not None:
        config["group.instance.id"] = instance
    return config


def producer_config(kafka: Mapping[str, Value], *, transactional_id: str | None) -> Config:
    """Settings of a producer; with a ``transactional_id`` it is transactional."""
    config = _for_client("producer.", kafka, _PRODUCER_DEFAULTS) | _PRODUCER_OURS
    if transactional_id is not None:
        config["transactional.id"] = transactional_id
        config.setdefault("transaction.timeout.ms", _TRANSACTION_TIMEOUT_MS)
    return config


def admin_config(kafka: Mapping[str, Value]) -> Config:
    """Settings of an admin client."""
    return _for_client("admin.", kafka, {})


def source_start(kafka: Mapping[str, Value]) -> str:
    """Where a source without a committed offset is read from: ``earliest`` (default) or ``latest``."""
    value = str(kafka.get("consumer.auto.offset.reset", kafka.get("auto.offset.reset", "earliest")))
    return "latest" if value in {"latest", "largest", "end"} else "earliest"


def is_cooperative(config: Mapping[str, Value]) -> bool:
    """Whether the consumer's assignment changes step by step instead of whole."""
    strategy = str(config.get("partition.assignment.strategy", ""))
    return is_new_protocol(config) or "cooperative" in strategy


def is_new_protocol(config: Mapping[str, Value]) -> bool:
    """Whether the broker assigns partitions itself (KIP-848)."""
    return str(config.get("group.protocol", "")).lower() == "consumer"


def _for_client(client: str, kafka: Mapping[str, Value], defaults: Config) -> Config:
    shared = {name: value for name, value in kafka.items() if not name.startswith(_CLIENTS)}
    own = {name.removeprefix(client): value for name, value in kafka.items() if name.startswith(client)}
    return {**defaults, **shared, **own}
