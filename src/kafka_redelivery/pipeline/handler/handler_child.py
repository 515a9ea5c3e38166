"""A child that runs the handler of a Spark task, and the memory in which it says what it is handling."""

from __future__ import annotations

import logging
import mmap
import os
import tempfile
from collections.abc import Callable
from threading import Event
from typing import Final, TypeVar

from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.consumers.flow.held_partitions import FIRST_PAUSE_S, LONGEST_PAUSE_S
from kafka_redelivery.consumers.handlers.child_process import ChildProcess, LoadLimit
from kafka_redelivery.pipeline.handler.config import HandlerConfig
from kafka_redelivery.pipeline.handler.shared_position import SHARED_BYTES, SharedPosition

_log = logging.getLogger(__name__)

_C = TypeVar("_C", bound="HandlerChild")

_MODULE: Final = "kafka_redelivery.pipeline.handler.child"


def started_again(start: Callable[[], _C]) -> _C:
    """Start a child instead of a dead one, as soon as that is possible. Its records wait, uncounted.

    What the handler needs at its start may be away.
    """
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return start()
        except (HandlerLoadError, OSError) as error:
            _log.warning("%s; the records wait, and it is tried again in %g s", error, pause_s)
        Event().wait(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


class HandlerChild(ChildProcess):
    """The parent's side of a child."""

    def __init__(self, config: HandlerConfig, load_limit: LoadLimit, positions: int = 1) -> None:
        """Start the child and wait until it has loaded the handler.

        Args:
            config: the configuration.
            load_limit: how long it may take to load the handler.
            positions: how many records it says that it is handling; 1 = it handles one after the other.

        Raises:
            HandlerLoadError: the child cannot load the handler.
        """
        with tempfile.TemporaryFile() as file:
            file.truncate(positions * SHARED_BYTES)
            self._memory = mmap.mmap(file.fileno(), positions * SHARED_BYTES)
            self.positions = [SharedPosition(self._memory, number) for number in range(positions)]
            for position in self.positions:
                position.clear()
            # Spark's Python workers run with PYTHONSAFEPATH. Programs that the handler starts must not inherit it.
            environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
            environment["PYTHONPATH"] = os.pathsep.join(config.search_path)
            super().__init__(
                _MODULE,
                (config, positions),
                search_path=config.search_path,
                descriptors=[file.fileno()],
                environment=environment,
            )
        self.wait_until_ready(config.section.callable, load_limit)

    def kill(self) -> None:
        """End the child now, and close what it shares with this process."""
        super().kill()
        self.leave()
        self._memory.close()
