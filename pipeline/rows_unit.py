"""Records with their outcomes, as far as possible still in Arrow columns."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from consumers.unit import Unit
from pipeline.batch_context import Emitted
from pipeline.rows import Rows
from topology.decision import Failure
from topology.headers import HeaderList
from transport.protocols import Copy

_as_copy: Final = cast("Callable[[tuple[object, ...]], Copy]", partial(tuple.__new__, Copy))
"""What ``Copy._make`` does, without a call of Python's for each record."""


@dataclass(slots=True, eq=False)
class RowsUnit(Unit):
    """See :class:`consumers.unit.Unit`; each of its records has its outcome."""

    tables: list[Emitted] = field(default_factory=list)
    """What a vectorised handler emitted."""

    _offsets: list[int] = field(default_factory=list)

    def offsets(self) -> list[int]:
        """Of all records."""
        if not self._offsets:
            self._offsets = cast("Rows", self.messages).offsets()
        return self._offsets

    def emitted(self, held: Container[int] = ()) -> tuple[list[Copy], list[int]]:
        """What was emitted, and for each the offset of the record that did; nothing is ever held here."""
        del held
        offsets = self.offsets()
        copies = [copy for _, outputs in self.outputs for copy in outputs]
        owners = [offsets[index] for index, outputs in self.outputs for _ in outputs]
        for topic, partition, table in self.tables:
            rows, keys, values, headers = (table.column(number) for number in range(4))
            parts = zip(
                repeat(topic), repeat(partition), keys.to_pylist(), values.to_pylist(), _header_lists(headers),
                strict=False,
            )  # fmt: skip
            copies += map(_as_copy, parts)
            owners += map(offsets.__getitem__, rows.to_pylist())
        return copies, owners

    def refuse(self, offset: int, failure: Failure) -> None:
        """Let one of its records have failed, whatever outcome it had."""
        index = self.offsets().index(offset)
        self.outputs = [entry for entry in self.outputs if entry[0] != index]
        self.tables = [
            each._replace(table=each.table.filter(pc.not_equal(each.table.column("row"), index)))
            for each in self.tables
        ]  # fmt: skip
        others = [entry for entry in self.failures if entry[0] != index]
        self.failures = sorted([*others, (index, failure)], key=lambda entry: entry[0])


def _header_lists(headers: pa.Array) -> list[HeaderList | None] | repeat[None]:
    if headers.null_count == len(headers):
        return repeat(None)
    return [
        None if pairs is None else [(pair["key"], pair["value"]) for pair in pairs] for pairs in headers.to_pylist()
    ]
