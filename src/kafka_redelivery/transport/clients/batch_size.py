"""The size of the batches of a producer. The broker refuses a batch that is larger than its topic allows."""

from __future__ import annotations

import logging

from kafka_redelivery.transport.client_config import Config

_log = logging.getLogger(__name__)

_BATCH_SIZE = "batch.size"
_DEFAULT = 1_000_000


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
    return int(config.get(_BATCH_SIZE, _DEFAULT))


def _with_size(config: Config, size: int) -> Config:
    _log.warning("a topic takes smaller batches than %d bytes; the producer goes on with %d", _size(config), size)
    return config | {_BATCH_SIZE: size}
