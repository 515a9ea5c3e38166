"""The compression of a producer, and what is said of records that are too large with any.

The user's producers may compress better than ours do by default, which costs more time. A copy of such a record is
larger than the record was. So a write with a record that is too large is repeated once with the best compression.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final

from kafka_redelivery.topology.cluster.facts import MAX_MESSAGE
from kafka_redelivery.transport.client_config import Config
from kafka_redelivery.transport.clients.delivery import size_of
from kafka_redelivery.transport.errors import RefusalCause, RefusedRecord, WriteRefusedError
from kafka_redelivery.transport.protocols import ProducerRecord

_TYPE: Final = "compression.type"
_OTHER_NAME: Final = "compression.codec"
_LEVEL: Final = "compression.level"
_BEST: Final[Config] = {_TYPE: "zstd", _LEVEL: 12}
"""12 is the highest level that the client takes."""

_CLIENT_LIMIT: Final = "message.max.bytes"
_LARGEST: Final = 100_000_000


def best(config: Config) -> Config:
    """Return settings of a producer with the best compression, and the others of ``config``."""
    return {name: value for name, value in config.items() if name != _OTHER_NAME} | _BEST


def too_large(error: WriteRefusedError) -> bool:
    """Whether some of the refused records are too large."""
    return any(each.cause is RefusalCause.TOO_LARGE for each in error.refused)


def with_sizes(
    error: WriteRefusedError,
    records: Sequence[ProducerRecord],
    config: Config,
    limit_of: Callable[[Collection[str]], int | None],
) -> WriteRefusedError:
    """Return a refusal that says how large the records are that are too large, and which limit they exceed.

    Args:
        error: the refusal of a write, with the best compression if records are too large.
        records: those of the write.
        config: the settings of the producer.
        limit_of: returns the smallest limit of topics; ``None`` if the user may not know it.
    """
    topics = {records[each.index].topic for each in error.refused if each.cause is RefusalCause.TOO_LARGE}
    limits = {topic: limit_of({topic}) for topic in topics}
    own_limit = int(config.get(_CLIENT_LIMIT, _LARGEST))

    def explained(each: RefusedRecord) -> RefusedRecord:
        record = records[each.index]
        if record.topic not in topics or each.cause is not RefusalCause.TOO_LARGE:
            return each
        size, limit = size_of(record), limits[record.topic]
        known = f"{MAX_MESSAGE} of {record.topic}" + ("" if limit is None else f", {limit} bytes")
        why = f"its {size} bytes exceed the limit, {known}, also with the best compression (zstd)"
        if size > own_limit:
            why = f"its {size} bytes before compression exceed the limit of the client, {_CLIENT_LIMIT}={own_limit}"
        return replace(each, reason=f"{each.reason}: {why}")

    return WriteRefusedError([explained(each) for each in error.refused], others_written=False)
