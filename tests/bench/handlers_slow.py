"""Handlers that wait, as for an answer from another system."""

import asyncio
import time

from kafka_redelivery import Record
from tests.bench.handlers import Measured


class Sleeps(Measured):
    """Waits in a thread."""

    def __call__(self, record: Record) -> None:
        """Wait for ``sleep_s`` seconds."""
        self.tally.begin()
        time.sleep(self.parameters["sleep_s"])
        self.tally.note(record.value)


class SleepsAsync(Measured):
    """Waits in an event loop."""

    async def __call__(self, record: Record) -> None:
        """Wait for ``sleep_s`` seconds."""
        self.tally.begin()
        await asyncio.sleep(self.parameters["sleep_s"])
        self.tally.note(record.value)
