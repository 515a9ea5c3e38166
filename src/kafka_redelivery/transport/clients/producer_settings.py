"""Settings of a producer for what is too large: its compression and the size of its batches.

The user's producers may compress better than ours do by default, which costs more time. A copy of such a record is
larger than the record was. So a write with a record that is too large is repeated once with the best compression.

The broker also refuses a batch that is larger than its topic allows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final

from kafka_redelivery.topology.cluster.facts import MAX_MESSAGE
from kafka_redelivery.transport.client_config import Config
from kafka_redelivery.transport.clients.delivery import size_of
from kafka_redelivery.transport.errors import RefusalCause, RefusedRecord, WriteRefusedError
from kafka_redelivery.transport.protocols import ProducerRecord

_log = logging.getLogger(__name__)

_BATCH_SIZE: Final = "batch.size"
_DEFAULT_BATCH_SIZE: Final = 1_000_000
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


def fitting(config: Config, limit: int | None) -> Config | None:
    """Return settings of a producer whose batches have at most ``limit`` bytes; ``None`` if those of these have, too.

    A batch may still be larger if it holds a single record.
    """
    size = _size(config)
    return None if limit is None or limit >= size else _with_size(config, limit)


def halved(config: Config) -> Config | None:
    """Return settings of a producer with batches half as large; ``None`` if each record has one of its own."""
    size = _size(config)
    return None if size <= 1 else _with_size(config, size // 2)


def _size(config: Config) -> int:
    return int(config.get(_BATCH_SIZE, _DEFAULT_BATCH_SIZE))


def _with_size(config: Config, size: int) -> Config:
    _log.warning("a topic takes smaller batches than %d bytes; the producer goes on with %d", _size(config), size)
    return config | {_BATCH_SIZE: size}
