"""Settings of Kafka clients: our defaults, the user's settings above them, and those that cannot be changed.

Settings of the ``kafka`` section keep librdkafka's names. With the prefix ``producer.``, ``consumer.`` or ``admin.``
a setting applies to that kind of client only.
"""

from __future__ import annotations

from collections.abc import Mapping

ConfigValue = str | int | float | bool
Config = dict[str, ConfigValue]

JAVA_PREFIX = "spark."
"""Prefix of settings of the Java client, which only Spark uses."""

_CLIENTS = ("producer.", "consumer.", "admin.", JAVA_PREFIX)

_CONSUMER_DEFAULTS: Config = {
    "partition.assignment.strategy": "cooperative-sticky",
    # As in the Java client. Otherwise damaged records reach handlers, or stop their partition without an error.
    "check.crcs": True,
    # After a resume or a seek, a partition waits for the idle fetch in progress (half a second by default).
    "fetch.wait.max.ms": 20,
    # The default prefetch of 64 MiB per partition would exceed every memory limit of ours.
    "queued.max.messages.kbytes": 16_384,
    # A redelivery waits behind the records that the client has prefetched.
    "queued.min.messages": 1_000,
    # How soon a new partition of a subscribed topic is read (five minutes by default). The request names only the
    # topics that the client uses.
    "topic.metadata.refresh.interval.ms": 5_000,
    # The pause before the next fetch when the queue is full (a second by default).
    "fetch.queue.backoff.ms": 10,
}
SMALL_PREFETCH: Config = {
    "queued.max.messages.kbytes": 4_096,
    "fetch.message.max.bytes": 262_144,
}
"""For a consumer that should use little memory."""

IDLE_FETCH: Config = {
    # The broker answers an idle fetch after this time, or when a record arrives.
    "fetch.wait.max.ms": 500,
    "queued.min.messages": 1,
    **SMALL_PREFETCH,
}
"""For a consumer that is mostly idle and may be slow."""

_CONSUMER_FIXED: Config = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    # Start offsets are explicit. An offset out of range is an error, never a silent reset.
    "auto.offset.reset": "error",
}
_PRODUCER_DEFAULTS: Config = {
    "acks": "all",
    "linger.ms": 2,
    # The first request after a commit gets CONCURRENT_TRANSACTIONS and is repeated after this time; the default of
    # 100 ms would be most of a transaction's duration.
    "retry.backoff.ms": 2,
    "retry.backoff.max.ms": 100,
    "queue.buffering.max.messages": 1_000_000,
    # The partitioner of Java clients: a key goes to the same partition whichever client produces it.
    "partitioner": "murmur2_random",
    "compression.type": "lz4",
    # The client refuses larger records, but only the broker knows the limit of a topic. This is just below the largest
    # request that a broker reads (its socket.request.max.bytes). Batches have a limit of their own, batch.size.
    "message.max.bytes": 100_000_000,
}
_PRODUCER_FIXED: Config = {
    "enable.idempotence": True,
    "delivery.report.only.error": True,
}
_TRANSACTION_TIMEOUT_MS = 30_000
"""Together with the broker's scan every 10 s this is shorter than the default session time-out of 45 s, for which a
killed process without a stable name keeps its partitions anyway."""


def consumer_config(
    kafka: Mapping[str, ConfigValue], *, group: str, instance: str | None, small_prefetch: bool = False
) -> Config:
    """Return the settings of a consumer.

    Args:
        kafka: the settings of the ``kafka`` section.
        group: the group id.
        instance: a stable name, which makes the membership static; ``None`` for a dynamic one.
        small_prefetch: prefetch less, for records that wait in Kafka anyway.
    """
    defaults = _CONSUMER_DEFAULTS | SMALL_PREFETCH if small_prefetch else _CONSUMER_DEFAULTS
    config = _for_client("consumer.", kafka, defaults) | _CONSUMER_FIXED
    if is_new_protocol(config):
        config.pop("partition.assignment.strategy", None)
    config["group.id"] = group
    if instance is not None:
        config["group.instance.id"] = instance
    return config


def producer_config(kafka: Mapping[str, ConfigValue], *, transactional_id: str | None) -> Config:
    """Return the settings of a producer; with a ``transactional_id`` it is transactional."""
    config = _for_client("producer.", kafka, _PRODUCER_DEFAULTS) | _PRODUCER_FIXED
    if transactional_id is not None:
        config["transactional.id"] = transactional_id
        config.setdefault("transaction.timeout.ms", _TRANSACTION_TIMEOUT_MS)
    return config


def admin_config(kafka: Mapping[str, ConfigValue]) -> Config:
    """Return the settings of an admin client."""
    return _for_client("admin.", kafka, {})


def identity_config(client: Config) -> Config:
    """Return the settings of an admin client with the same brokers and the same user as a producer or consumer."""
    return {
        name: value
        for name, value in client.items()
        if not (name in _PRODUCER_FIXED or name in _CONSUMER_FIXED or name.startswith(("transaction", "group.")))
    }


def servers_of(config: Mapping[str, ConfigValue]) -> str:
    """Return the addresses at which a client connects first."""
    return str(config.get("bootstrap.servers", config.get("metadata.broker.list", "")))


def login_of(config: Mapping[str, ConfigValue]) -> str:
    """Return as whom a client logs in, and how, such as ``user billing with SCRAM-SHA-512``."""
    mechanism = config.get("sasl.mechanism", config.get("sasl.mechanisms", "GSSAPI"))
    user = config.get("sasl.username", config.get("sasl.oauthbearer.client.id"))
    return f"user {user} with {mechanism}" if user is not None else f"the client with {mechanism}"


def source_start(kafka: Mapping[str, ConfigValue]) -> str:
    """Return where a source without a committed offset is read from: ``earliest`` (default) or ``latest``."""
    value = str(kafka.get("consumer.auto.offset.reset", kafka.get("auto.offset.reset", "earliest")))
    return "latest" if value in {"latest", "largest", "end"} else "earliest"


def is_cooperative(config: Mapping[str, ConfigValue]) -> bool:
    """Whether rebalances are incremental: the consumer keeps the partitions that stay assigned to it."""
    strategy = str(config.get("partition.assignment.strategy", ""))
    return is_new_protocol(config) or "cooperative" in strategy


def is_new_protocol(config: Mapping[str, ConfigValue]) -> bool:
    """Whether the group uses the consumer rebalance protocol of KIP-848, in which the broker assigns partitions."""
    return str(config.get("group.protocol", "")).lower() == "consumer"


def _for_client(client: str, kafka: Mapping[str, ConfigValue], defaults: Config) -> Config:
    shared = {name: value for name, value in kafka.items() if not name.startswith(_CLIENTS)}
    own = {name.removeprefix(client): value for name, value in kafka.items() if name.startswith(client)}
    return {**defaults, **shared, **own}
