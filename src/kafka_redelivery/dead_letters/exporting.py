"""What `redelivery dlq export` prints, and what it would print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.dead_letters.index.sql import unexpired
from kafka_redelivery.dead_letters.letter import LetterState, Selection, Standing
from kafka_redelivery.dead_letters.pointers import Sources, grouped, pointer_of
from kafka_redelivery.dead_letters.reading import (
    ReportProgress,
    StoredLetter,
    letter_in,
    letter_topic_ids,
    refuse_created_again,
)
from kafka_redelivery.dead_letters.source import LetterSource, OtherSystem
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.assigned_reader import read_between
from kafka_redelivery.transport.errors import ReaderError
from kafka_redelivery.transport.protocols import Partition


@dataclass(slots=True)
class Exportable:
    """The letters of an export, those included that have expired."""

    kinds: Counter[tuple[str, LetterState]] = field(default_factory=Counter)
    """How many there are, by origin and state."""

    expired: int = 0

    @property
    def total(self) -> int:
        """The number of lines."""
        return self.kinds.total()

    def document(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
        return {
            "letters": self.total,
            "expired": self.expired,
            "kinds": [
                {"origin": origin, "state": state, "letters": number}
                for (origin, state), number in self.kinds.most_common()
            ],
        }


def exportable(index: Index, selection: Selection, now_ms: int) -> Exportable:
    """Return what `export` would print, from an index that is up to date.

    Raises:
        IndexUnusableError: the index cannot tell.
    """
    wanted, alive = index.ours & index.condition(selection), unexpired(now_ms)
    kinds = index.rows(
        f"""
        SELECT origin, state, count(*), count(*) FILTER (NOT ({alive.sql}))
        FROM letters WHERE {wanted.sql} GROUP BY ALL ORDER BY count(*) DESC, origin, state
        """,  # noqa: S608 - conditions are compiled
        (*alive.parameters, *wanted.parameters),
    )
    found = Exportable()
    for origin, state, number, expired in kinds:
        found.kinds[origin or "", LetterState(state)] += number
        found.expired += expired
    return found


def exported(
    settings: LetterSource, index: Index, selection: Selection, progress: ReportProgress
) -> Iterator[StoredLetter]:
    """Yield the letters of an export: the index says which, and their bytes are read from their topics.

    Raises:
        IndexUnusableError: the index cannot tell.
        RedriveError: a topic was deleted and created again meanwhile.
        TransportError: Kafka does not answer or denies access.
    """
    wanted = index.ours & index.condition(selection)
    rows = index.rows(
        f"""
        SELECT topic, partition, list("offset" ORDER BY "offset"), list(state ORDER BY "offset")
        FROM letters WHERE {wanted.sql} GROUP BY ALL
        """,  # noqa: S608 - conditions are compiled
        wanted.parameters,
    )
    offsets = {Partition(topic, number): found for topic, number, found, _ in rows}
    left = {Partition(topic, number): iter(zip(found, states, strict=True)) for topic, number, found, states in rows}
    total, done = sum(map(len, offsets.values())), 0
    following = {each: next(its) for each, its in left.items()}
    starts = {each: found[0] for each, found in offsets.items()}
    ends = {each: found[-1] + 1 for each, found in offsets.items()}
    try:
        for message in read_between(settings.kafka, settings.group, starts, ends):
            partition = Partition(message.topic(), message.partition())
            its = following.get(partition)
            while its is not None and its[0] < message.offset():  # deleted since the index was brought up to date
                its = following[partition] = next(left[partition], None)  # type: ignore[assignment] # there is none left
            if its is not None and its[0] == message.offset():
                yield StoredLetter(letter_in(message, settings), Standing(LetterState(its[1])), message)
                done += 1
                if done % 1000 == 0:
                    progress(done, total)
    except ReaderError:  # a topic that was created again may end before these offsets
        now = letter_topic_ids(settings, PartitionOffsets(settings.kafka).calls)
        refuse_created_again(index.topics, now, "exported", "its letters were counted")
        raise


def export_documents(
    settings: LetterSource, index: Index, selection: Selection, progress: ReportProgress, *, fetch: bool
) -> Iterator[dict[str, Any]]:
    """Yield the lines of an export as plain data for JSON; raises as :func:`exported`.

    ``fetch``: whether letters of another system without content get that of the records that they name.
    """
    letters = exported(settings, index, selection, progress)
    if not (fetch and isinstance(settings, OtherSystem)):
        yield from (each.exported() for each in letters)
        return
    with closing(Sources(settings, ClusterAdmin(settings.kafka).partition_counts())) as sources:
        for group in grouped(letters):
            pointers = [pointer_of(each.letter) if each.letter.no_content else None for each in group]
            for letter, source in zip(group, sources.find(pointers), strict=True):
                yield letter.exported(source)
