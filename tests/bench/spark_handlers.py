"""Handlers of the streaming query: they send everything on, but for what is to fail."""

import sys
from pathlib import Path

import pyarrow.compute as pc
from pyarrow import RecordBatch

from kafka_redelivery import BatchContext, Context, Record
from tests.bench.tally import NUMBER_DIGITS

_LAST = slice(NUMBER_DIGITS - 1, NUMBER_DIGITS)


class _Told:
    """What the benchmark wrote beside the configuration, whose folder is the last place where modules are found."""

    def __init__(self) -> None:
        output, failing = Path(sys.path[-1], "told").read_text(encoding="utf-8").split()
        self.output = output
        self.fails = float(failing) > 0
        """Then it is a tenth: the records whose numbers end with 0."""


class VectorEmits(_Told):
    """Many records in one call."""

    def __call__(self, batch: RecordBatch, context: BatchContext) -> None:
        """Send them on."""
        context.send(self.output, batch["value"], keys=batch["key"])
        if self.fails:
            failing = pc.equal(pc.binary_slice(batch["value"], _LAST.start, _LAST.stop), b"0")
            context.fail(failing, ValueError("it fails"))


class Emits(_Told):
    """One record in one call."""

    def __call__(self, record: Record, context: Context) -> None:
        """Send it on."""
        if self.fails and record.value[_LAST] == b"0":
            raise ValueError("it fails")
        context.send(self.output, record.value, key=record.key)
