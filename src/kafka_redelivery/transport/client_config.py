"""Settings of Kafka clients: our defaults, the user's settings above them, and those that cannot be changed.

Settings of the ``kafka`` section keep librdkafka's names. With the prefix ``producer.``, ``consumer.`` or ``admin.``
a setting applies to that kind of client only.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_redelivery.topology.config.rules.clients import CLIENT_PREFIXES, DEFAULT_TRANSACTION_TIMEOUT_MS, mechanism_of

ConfigValue = str | int | float | bool
Config = dict[str, ConfigValue]

_CONSUMER_NAMES = """
auto.commit.enable auto.commit.interval.ms auto.offset.reset check.crcs consume.callback.max.messages
coordinator.query.interval.ms enable.auto.commit enable.auto.offset.store enable.partition.eof fetch.error.backoff.ms
fetch.max.bytes fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms fetch.wait.max.ms group.id
group.instance.id group.protocol group.protocol.type group.remote.assignor heartbeat.interval.ms isolation.level
max.partition.fetch.bytes max.poll.interval.ms max.poll.records offset.store.method offset.store.path
offset.store.sync.interval.ms partition.assignment.strategy queued.max.messages.kbytes queued.min.messages
session.timeout.ms share.acknowledgement.mode
"""
_PRODUCER_NAMES = """
acks batch.num.messages batch.size compression.codec compression.level compression.type delivery.report.only.error
delivery.timeout.ms enable.gapless.guarantee enable.idempotence linger.ms message.send.max.retries message.timeout.ms
partitioner produce.offset.report queue.buffering.backpressure.threshold queue.buffering.max.kbytes
queue.buffering.max.messages queue.buffering.max.ms queuing.strategy request.required.acks request.timeout.ms retries
sticky.partitioning.linger.ms transaction.timeout.ms transactional.id
"""
_OF_OTHERS: Mapping[str, frozenset[str]] = {
    "consumer.": frozenset(_PRODUCER_NAMES.split()),
    "producer.": frozenset(_CONSUMER_NAMES.split()),
    "admin.": frozenset((_CONSUMER_NAMES + _PRODUCER_NAMES).split()),
}
"""What each kind of client does not get, because it is for others; it would log a warning about each.
Source: CONFIGURATION.md of librdkafka 2.16, column C/P."""

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

_DEFAULT_SESSION_TIMEOUT_MS = 45_000
_SCHEDULER_POLL_INTERVAL_MS = 60_000
"""How long a group that is rebalanced waits for a member that does not come back. After the coordinator was killed,
Kafka has waited for one that no process was. The client's default of five minutes is for slow handlers; a scheduler
polls all the time. Kafka that does not answer can keep it from that, so this is longer than a short outage."""

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


def consumer_config(
    kafka: Mapping[str, ConfigValue], *, group: str, instance: str | None, scheduler: bool = False
) -> Config:
    """Return the settings of a consumer.

    Args:
        kafka: the settings of the ``kafka`` section.
        group: the group id.
        instance: a stable name, which makes the membership static; ``None`` for a dynamic one.
        scheduler: whether it reads tiers. It prefetches less, since these records wait in Kafka anyway, and polls all
            the time.
    """
    defaults = _CONSUMER_DEFAULTS | SMALL_PREFETCH if scheduler else _CONSUMER_DEFAULTS
    config = _for_client("consumer.", kafka, defaults) | _CONSUMER_FIXED
    if is_new_protocol(config):
        config.pop("partition.assignment.strategy", None)
    if scheduler:
        session_ms = int(config.get("session.timeout.ms", _DEFAULT_SESSION_TIMEOUT_MS))
        # The client refuses an interval below the session time-out.
        config.setdefault("max.poll.interval.ms", max(_SCHEDULER_POLL_INTERVAL_MS, session_ms))
    config["group.id"] = group
    if instance is not None:
        config["group.instance.id"] = instance
    return config


def producer_config(kafka: Mapping[str, ConfigValue], *, transactional_id: str | None) -> Config:
    """Return the settings of a producer; with a ``transactional_id`` it is transactional."""
    config = _for_client("producer.", kafka, _PRODUCER_DEFAULTS) | _PRODUCER_FIXED
    if transactional_id is not None:
        config["transactional.id"] = transactional_id
        config.setdefault("transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS)
    return config


def admin_config(kafka: Mapping[str, ConfigValue]) -> Config:
    """Return the settings of an admin client."""
    return _for_client("admin.", kafka, {})


def identity_config(client: Config) -> Config:
    """Return the settings of an admin client with the same brokers and the same user as a producer or consumer."""
    return {name: value for name, value in client.items() if name not in _OF_OTHERS["admin."]}


def servers_of(config: Mapping[str, ConfigValue]) -> str:
    """Return the addresses at which a client connects first."""
    return str(config.get("bootstrap.servers", config.get("metadata.broker.list", "")))


def login_of(config: Mapping[str, ConfigValue]) -> str:
    """Return as whom a client logs in, and how, such as ``user billing with SCRAM-SHA-512``."""
    mechanism = mechanism_of(config) or "GSSAPI"
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
    others = _OF_OTHERS[client]
    shared = {name: value for name, value in kafka.items() if not (name.startswith(CLIENT_PREFIXES) or name in others)}
    own = {name.removeprefix(client): value for name, value in kafka.items() if name.startswith(client)}
    return {**defaults, **shared, **own}
