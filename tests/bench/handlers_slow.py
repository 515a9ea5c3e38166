"""Handlers that wait, as for an answer from another system."""

import asyncio
import time

from kafka_redelivery import Context, Record
from tests.bench.handlers import FailsOnce, Measured


class Sleeps(Measured):
    """Waits in a thread."""

    def __call__(self, record: Record) -> None:
        """Wait for ``sleep_s`` seconds."""
        self.tally.begin()
        time.sleep(self.parameters["sleep_s"])
        self.tally.note(record.value)


class SleepsAndFailsOnce(FailsOnce):
    """Waits in a thread at each delivery, then does what its base class does."""

    def __call__(self, record: Record, context: Context) -> None:
        """Wait for ``sleep_s`` seconds."""
        time.sleep(self.parameters["sleep_s"])
        super().__call__(record, context)


class SleepsAsync(Measured):
    """Waits in an event loop."""

    async def __call__(self, record: Record) -> None:
        """Wait for ``sleep_s`` seconds."""
        self.tally.begin()
        await asyncio.sleep(self.parameters["sleep_s"])
        self.tally.note(record.value)
