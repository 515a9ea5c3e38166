"""Handlers that wait, as for an answer from elsewhere."""

import asyncio
import time

from kafka_redelivery import Record
from tests.bench.handlers import Measured


class Sleeps(Measured):
    """In a thread."""

    def __call__(self, record: Record) -> None:
        """Wait as long as told."""
        self.tally.begin()
        time.sleep(self.told["sleep_s"])
        self.tally.note(record.value)


class SleepsAsync(Measured):
    """In an event loop."""

    async def __call__(self, record: Record) -> None:
        """Wait as long as told."""
        self.tally.begin()
        await asyncio.sleep(self.told["sleep_s"])
        self.tally.note(record.value)
