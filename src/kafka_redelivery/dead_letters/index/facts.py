"""Where letters stand, from the jobs and actions, as rows and as SQL.

The index keeps what the records say as rows in files, adds those of new records, and computes the standing of all
letters in one query. A job about a topic that was deleted and created again says nothing about the letters that are
there now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from arro3.core import Array, DataType, Table

from kafka_redelivery.topology.redrive.actions import Action, ChunkProgress, Doubt, Ended
from kafka_redelivery.topology.redrive.job import Job


class ActionRow(NamedTuple):
    """One thing that an action says. The kinds are those of :func:`action_rows`."""

    sequence: int
    job: str
    slice: int
    kind: str
    offset: int
    number: int = 0
    """Of ``through``, how many letters were sent."""

    text: str = ""
    """Of ``refused``, why."""

    at_ms: int = 0
    """When it was written (epoch ms); 0 = not known."""


OWNED_COLUMNS: Final = """
    position BIGINT, job VARCHAR, slice INTEGER, topic VARCHAR, topic_id VARCHAR, partition INTEGER, "offset" BIGINT
"""
ACTION_COLUMNS: Final = """
    sequence BIGINT, job VARCHAR, slice INTEGER, kind VARCHAR, "offset" BIGINT, number BIGINT, text VARCHAR,
    at_ms BIGINT
"""

_INTEGERS: Final = frozenset({"offset", "sequence", "slice", "number", "at_ms"})


def owned_by(job: Job) -> Table:
    """Return the letters that belong to a job, with the columns of :data:`OWNED_COLUMNS`; unknown ids are empty."""
    texts, numbers, small = DataType.string(), DataType.int64(), DataType.int32()
    batches = []
    for number, ((topic, partition), letters) in enumerate(zip(job.spec.slices, job.owned, strict=True)):
        rows = len(letters)
        columns = [
            Array([job.position] * rows, numbers),
            Array([job.id] * rows, texts),
            Array([number] * rows, small),
            Array([topic] * rows, texts),
            Array([job.spec.topics.ids.get(topic, "")] * rows, texts),
            Array([partition] * rows, small),
            Array(list(letters), numbers),
        ]
        names = ["position", "job", "slice", "topic", "topic_id", "partition", "offset"]
        batches += Table.from_arrays(columns, names=names).to_batches()
    return Table.from_batches(batches)


def action_rows(actions: Iterable[Action], sequence: int) -> Iterator[ActionRow]:
    """Yield what actions say; the rows are numbered from ``sequence`` on.

    ``through``: all letters up to this one are dealt with. ``end_done``, ``end_cancelled``: the slice has ended.
    ``gone``, ``parked``, ``set_aside``, ``refused``: what became of a letter that was not sent. ``in_doubt``: a record
    of the slice cannot be read. Any other: the outcome of a letter that was sent.
    """
    for job, number, what, at_ms in actions:
        match what:
            case ChunkProgress():
                found = [("through", what.through, what.sent, "")]
                for kind, offsets in (("gone", what.gone), ("parked", what.parked), ("set_aside", what.set_aside)):
                    found += [(kind, each, 0, "") for each in offsets]
                found += [("refused", each, 0, why) for each, why in what.refused.items()]
                found += [] if what.end is None else [(f"end_{what.end}", -1, 0, "")]
            case Ended(offset, outcome):
                found = [(str(outcome), offset, 0, "")]
            case Doubt():
                found = [("in_doubt", -1, 0, "")]
            case None:
                found = []
        for row in found:
            yield ActionRow(sequence, job, number, *row, at_ms)
            sequence += 1


def actions_table(rows: Sequence[ActionRow]) -> Table:
    """Return rows, of which there is at least one, as columns."""
    names = ActionRow._fields
    kinds = [DataType.int64() if name in _INTEGERS else DataType.string() for name in names]
    columns = zip(*rows, strict=True)
    return Table.from_arrays([Array(each, kind) for each, kind in zip(columns, kinds, strict=True)], names=list(names))


_STEPS: Final = """
    WITH chunks AS (
        SELECT job, slice, "offset", max(number) AS sent
        FROM actions
        WHERE kind = 'through'
        GROUP BY job, slice, "offset"
    ), progress AS (
        SELECT job, slice, max("offset") AS through, sum(sent) AS sent FROM chunks GROUP BY job, slice
    ), ends AS (
        SELECT job, slice, arg_max(kind, sequence) AS ended
        FROM actions
        WHERE kind IN ('end_done', 'end_cancelled')
        GROUP BY job, slice
    ), doubts AS (
        SELECT DISTINCT job, slice, true AS in_doubt FROM actions WHERE kind = 'in_doubt'
    ), unsent AS (
        SELECT job, slice, "offset",
               min(CASE kind WHEN 'gone' THEN 1 WHEN 'parked' THEN 2 WHEN 'set_aside' THEN 3 ELSE 4 END) AS why,
               arg_max(text, sequence) AS reason, arg_max(at_ms, sequence) AS at_ms
        FROM actions
        WHERE kind IN ('gone', 'parked', 'set_aside', 'refused')
        GROUP BY job, slice, "offset"
    ), outcomes AS (
        SELECT job, slice, "offset", arg_max(kind, sequence) AS outcome, arg_max(at_ms, sequence) AS at_ms
        FROM actions
        WHERE kind IN ('recovered', 'dead_again', 'discarded', 'expired')
        GROUP BY job, slice, "offset"
    ), dealt AS (
        SELECT owned.*, unsent.why, unsent.reason, unsent.at_ms AS unsent_ms, coalesce(in_doubt, false) AS in_doubt,
               owned."offset" <= coalesce(progress.through, -1) AS done
        FROM owned
        LEFT JOIN doubts USING (job, slice)
        LEFT JOIN progress USING (job, slice)
        LEFT JOIN unsent USING (job, slice, "offset")
    ), sums AS (
        SELECT job, slice, count(*) = any_value(progress.sent) + count(why) AS adds_up
        FROM dealt JOIN progress USING (job, slice)
        WHERE done
        GROUP BY job, slice
    ), steps AS (
        SELECT slots.slot, dealt."offset", dealt.job, dealt.position * 1000000 + dealt.slice AS place,
               CASE
                   WHEN in_doubt THEN 'sent'
                   WHEN NOT done THEN CASE WHEN ends.ended = 'end_cancelled' THEN NULL ELSE 'in_job' END
                   WHEN NOT adds_up THEN 'sent'
                   WHEN why IS NOT NULL THEN ['gone', 'parked', 'discarded', 'refused'][why]
                   ELSE coalesce(outcomes.outcome, 'sent')
               END AS state,
               in_doubt OR (done AND (why IS NULL OR NOT adds_up)) AS was_sent,
               CASE WHEN state = 'refused' THEN dealt.reason ELSE '' END AS reason,
               CASE
                   WHEN NOT done OR NOT adds_up OR in_doubt THEN 0
                   WHEN why IS NOT NULL THEN unsent_ms
                   ELSE coalesce(outcomes.at_ms, 0)
               END AS decided_ms
        FROM dealt
        JOIN slots ON slots.topic = dealt.topic AND slots.partition = dealt.partition
                  AND (dealt.topic_id = slots.topic_id OR '' IN (dealt.topic_id, slots.topic_id))
        LEFT JOIN ends USING (job, slice)
        LEFT JOIN sums USING (job, slice)
        LEFT JOIN outcomes USING (job, slice, "offset")
    )
"""
"""From ``owned``, ``actions`` and ``slots``: ``steps``, where each letter stands by each job that has or had it."""

STANDINGS: Final = f"""
    {_STEPS}
    SELECT slot, "offset", arg_max(state, place) AS state, arg_max(job, place) AS job,
           count(*) FILTER (was_sent)::INTEGER AS sends, arg_max(decided_ms, place) AS decided_ms
    FROM steps WHERE state IS NOT NULL
    GROUP BY slot, "offset"
"""  # noqa: S608 - a constant
"""Where each letter stands that a job has or had, except those that are free again. ``decided_ms`` is when its job
or its record ended; 0 while neither has, or if that is not known."""

HISTORY: Final = f"""
    {_STEPS}
    SELECT state, job, was_sent, reason FROM steps WHERE slot = ? AND "offset" = ? ORDER BY place
"""  # noqa: S608 - a constant
"""Where one letter stands by each of its jobs; without a state where a cancelled job has left it as it was."""
