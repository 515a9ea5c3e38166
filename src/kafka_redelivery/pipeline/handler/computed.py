"""The outcomes of records that a DataFrame has computed. Spark brings them with the records, and no handler is called.

Besides the columns of :data:`SCHEMA` a batch has the column ``outcomes``: for each record a list with one entry for
each row that the DataFrame has for it. An entry is a failure, or a success with an output (key and value) or without
one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.errors import HaltedError
from kafka_redelivery.consumers.flow.assigned_partition import AssignedPartition
from kafka_redelivery.consumers.flow.lane import Lane
from kafka_redelivery.consumers.flow.work_item import WorkItem
from kafka_redelivery.consumers.handlers.handler import Handler
from kafka_redelivery.consumers.handlers.processor import Processor
from kafka_redelivery.consumers.routes import Route
from kafka_redelivery.pipeline.handler.items import Emitted, Handled, Outcomes
from kafka_redelivery.pipeline.handler.rows import HEADERS, Rows, need_no_preparation
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.wire.progress import Progress

OUTCOMES: Final = "outcomes"

KINDS: Final = frozenset({FailureKind.REJECTED, FailureKind.REDELIVER, FailureKind.RAISED, FailureKind.UNDECODABLE})
"""The kinds of failures that a DataFrame may have."""

NO_ROW: Final = Failure(FailureKind.RAISED, "NoRow", "the DataFrame has no row for this record")
FILTERED: Final = NO_ROW._replace(kind=FailureKind.FILTERED)


class Computing(NamedTuple):
    """What tasks do with rows of a DataFrame."""

    topic: str | None
    """The topic of the outputs; ``None`` = rows are not sent."""

    missing: Failure = NO_ROW
    """What a record without a row means."""


_Entries: TypeAlias = tuple[np.ndarray, np.ndarray, pa.StructArray]
"""How many entries each record has, the index of the record of each entry, and the entries."""


class ComputedOutcomes:
    """Takes the place of :class:`Handling` for records whose outcomes are known."""

    full = False
    attempt: object = None
    """See :class:`Handling`. Not used: nothing is called that could be away."""

    def __init__(self, computing: Computing, routes: Mapping[str, tuple[Route, bool]]) -> None:
        """Prepare.

        Args:
            computing: what is done with rows.
            routes: the route of each topic, and whether it is a ready topic.
        """
        self._topic, self._missing, self._routes = computing.topic, computing.missing, routes
        self._processor = Processor(
            Handler(_not_called, takes_context=False, asynchronous=False), {}, wall_clock_ms, None
        )

    def handle(self, rows: Rows) -> Iterator[Handled]:
        """Yield the records with their outcomes.

        Raises:
            HaltedError: the DataFrame has a row for a record that was not read, or a failure of an unknown kind.
        """
        route, redelivered = self._routes[rows.partition.topic]
        item = WorkItem(Lane(AssignedPartition(rows.partition, route, redelivered, Progress(0)), exclusive=True), [])
        entries = _entries(rows)
        failures = _failures(rows, entries, self._missing)
        if not need_no_preparation(rows, route, redelivered=redelivered):
            # It has expired, or had its last delivery, so that no handler would have got it: its rows do not count.
            for index, message in enumerate(rows):
                if isinstance(found := self._processor.prepare(item, message), Failure):
                    failures[index] = found
        emitted = [] if self._topic is None else [Emitted(self._topic, None, _outputs(entries, failures))]
        yield Handled(
            rows, Outcomes(len(rows), sorted(failures.items()), item.lineages, item.lateness, emitted=emitted)
        )

    def collect(self, timeout_s: float) -> Iterator[Handled]:
        """Yield nothing: :meth:`handle` has yielded all."""
        del timeout_s
        yield from ()

    def abandon(self) -> None:
        """Do nothing: no record is being handled."""

    def close(self) -> None:
        """Do nothing."""


def _failures(rows: Rows, found: _Entries, missing: Failure) -> dict[int, Failure]:
    """Return the first failure of each record that has one, by index."""
    batch = rows.batch
    unread = pc.index(pc.is_null(batch.column("timestamp")), True).as_py()
    if unread >= 0:
        raise HaltedError(
            f"the DataFrame has a row for {rows.partition}@{rows.offsets()[unread]}, which is not in this micro-batch: "
            "the column _record of a row must be the one that the transformation was given"
        )
    lengths, owners, entries = found
    failures = dict.fromkeys(np.flatnonzero(lengths == 0).tolist(), missing)
    column = pc.struct_field(entries, "failure")
    failing = np.flatnonzero(pc.is_valid(column).to_numpy(zero_copy_only=False))
    for index, each in zip(owners[failing].tolist(), column.take(pa.array(failing)).to_pylist(), strict=True):
        if each["kind"] not in KINDS:
            raise HaltedError(
                f"_failure of {rows.partition}@{rows.offsets()[index]} is no reject(...) and no retry(...)"
            )
        name, text = each["exception"] or "", each["message"] or ""
        failures.setdefault(index, Failure(FailureKind(each["kind"]), name, text, each["after_ms"]))
    return failures


def _outputs(found: _Entries, failures: Mapping[int, Failure]) -> pa.RecordBatch:
    """Return the outputs of the records that have not failed."""
    _, owners, entries = found
    sent = pc.struct_field(entries, "sent").fill_null(fill_value=False).to_numpy(zero_copy_only=False)
    if failures:
        sent = sent & ~np.isin(owners, list(failures))
    if not sent.all():
        kept = np.flatnonzero(sent)
        owners, entries = owners[kept], entries.take(pa.array(kept))
    columns = [pa.array(owners, pa.int32()), *(pc.struct_field(entries, name) for name in ("key", "value"))]
    columns.append(pa.nulls(len(owners), HEADERS))
    return pa.RecordBatch.from_arrays(columns, ["row", "key", "value", "headers"])


def _entries(rows: Rows) -> _Entries:
    column = rows.batch.column(OUTCOMES)
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    return lengths, np.repeat(np.arange(len(rows)), lengths), column.flatten()


def _not_called(record: object) -> None:
    """The handler of records that are not handled here."""
    raise NotImplementedError(record)
