"""Handlers of the streaming query, which emit each record that is not chosen to fail."""

import sys
from pathlib import Path

import pyarrow.compute as pc
from pyarrow import RecordBatch

from kafka_redelivery import BatchContext, Context, Record
from tests.bench.tally import NUMBER_DIGITS

_LAST = slice(NUMBER_DIGITS - 1, NUMBER_DIGITS)


class _Parameters:
    """Parameters that the benchmark wrote next to the configuration, whose folder is the last entry of ``sys.path``."""

    def __init__(self) -> None:
        output, failing = Path(sys.path[-1], "parameters").read_text(encoding="utf-8").split()
        self.output = output
        self.fails = float(failing) > 0
        """Whether a tenth of the records fails: those whose numbers end with 0."""


class VectorEmits(_Parameters):
    """Emits many records in one call."""

    def __call__(self, batch: RecordBatch, context: BatchContext) -> None:
        """Emit the records."""
        context.send(self.output, batch["value"], keys=batch["key"])
        if self.fails:
            failing = pc.equal(pc.binary_slice(batch["value"], _LAST.start, _LAST.stop), b"0")
            context.fail(failing, ValueError("chosen to fail"))


class Emits(_Parameters):
    """Emits one record per call."""

    def __call__(self, record: Record, context: Context) -> None:
        """Emit the record."""
        if self.fails and record.value[_LAST] == b"0":
            raise ValueError("chosen to fail")
        context.send(self.output, record.value, key=record.key)
