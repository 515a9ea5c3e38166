"""The names that OpenTelemetry has for what a span says about messages, of one version of its conventions.

They are not stable: version 1.45 has renamed five of them. Nothing outside this module spells one.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = "1.45.0"
SCHEMA_URL: Final = f"https://opentelemetry.io/schemas/{VERSION}"

SYSTEM: Final = "messaging.system.name"
KAFKA: Final = "kafka"
OPERATION: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
PROCESS: Final = "process"
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
GROUP: Final = "messaging.consumer.group.name"
MESSAGE_ID: Final = "messaging.message.id"
BATCH_SIZE: Final = "messaging.batch.message_count"
KEY: Final = "kafka.message.key"
OFFSET: Final = "kafka.offset"
TOMBSTONE: Final = "kafka.message.tombstone"
ERROR_TYPE: Final = "error.type"

ATTEMPT: Final = "kafka_redelivery.attempt"
"""Number of the delivery, from 1. The conventions have a name for it for other systems only."""

FAILED: Final = "kafka_redelivery.batch.failed_count"
"""How many records of a batch the handler has failed without raising."""

LINK: Final = "kafka_redelivery.link"
"""On a link: :data:`PRODUCER` or :data:`LAST_ATTEMPT`."""

PRODUCER: Final = "producer"
LAST_ATTEMPT: Final = "last_attempt"
