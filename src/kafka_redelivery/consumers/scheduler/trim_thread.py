"""Trims the internal topics of a group in a thread of a scheduler process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager

from kafka_redelivery.consumers.process.background import background_thread
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.trimming import trim

_log = logging.getLogger(__name__)

_INTERVAL_S = 60.0


def trimming(
    settings: Settings, clock_ms: Callable[[], int], names: Callable[[], Collection[str]]
) -> AbstractContextManager[None]:
    """Trim once a minute on a thread while the block runs. An error is logged; the next minute tries again.

    Args:
        settings: the configuration.
        clock_ms: epoch ms.
        names: returns the topics of the group that may exist, configured or not.
    """

    def run(ended: threading.Event) -> None:
        while not ended.wait(_INTERVAL_S):
            _log.debug("trimmed %s", trim(settings, clock_ms(), names()))

    return background_thread("trim", run, "some finished records are not deleted", restart_s=0.0)
