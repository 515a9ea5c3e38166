"""Removes dead letters that are done from the start of their partitions; Kafka can remove nothing else.

Kafka removes records of a topic by its name. So its id is compared immediately before the request, and what is left is
the time that the request takes.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from kafka_redelivery.dead_letters.audit import write_note
from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.dead_letters.index.sql import Condition
from kafka_redelivery.dead_letters.letter import LetterState
from kafka_redelivery.dead_letters.reading import refuse_created_again
from kafka_redelivery.dead_letters.source import LetterSource
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets, RecordDeleter
from kafka_redelivery.transport.admin.topics import topic_ids
from kafka_redelivery.transport.errors import TransportError
from kafka_redelivery.transport.protocols import Partition

DONE = frozenset(
    {
        LetterState.RECOVERED,
        LetterState.DEAD_AGAIN,
        LetterState.DISCARDED,
        LetterState.EXPIRED,
        LetterState.PARKED,
    }
)
"""States in which a letter is needed no more: its outcome is known, or it is somewhere else."""


@dataclass(slots=True)
class Removable:
    """What can be removed from a partition."""

    before: int
    """The offset of the first record that stays."""

    letters: int = 0
    because: str = "nothing is left"
    """Why the record at ``before`` stays."""

    topic_id: str = ""
    """Of the topic whose letters were read; empty if it is not known."""


def removable(index: Index, ends: Mapping[Partition, int] | None = None) -> dict[Partition, Removable]:
    """Return what can be removed from each partition: its first letters up to one that is not done, or not ours.

    Args:
        index: up to date.
        ends: remove letters below these alone; ``None`` = below the ends that the index has read.

    Raises:
        IndexUnusableError: the index is damaged, and cannot be built anew.
    """
    ids, ours = index.topics.ids, index.ours
    done = Condition(f"({ours.sql}) AND state IN (SELECT unnest(?::VARCHAR[]))", (*ours.parameters, sorted(DONE)))
    found = {
        partition: Removable(end, topic_id=ids.get(partition.topic, ""))
        for partition, end in (index.ends if ends is None else ends).items()
    }
    stays = index.rows(
        f"""
        SELECT topic, partition, min("offset"), arg_min(id, "offset"), arg_min(state, "offset"),
               arg_min(({ours.sql}), "offset")
        FROM letters WHERE NOT ({done.sql}) GROUP BY topic, partition
        """,  # noqa: S608 - conditions are compiled
        (*ours.parameters, *done.parameters),
    )
    for topic, number, before, name, state, is_ours in stays:
        its = found.get(Partition(topic, number))
        if its is not None and before < its.before:
            its.before, its.because = before, f"{name} is {state}" if is_ours else f"{name} is not ours"
    counts = index.rows(
        """
        SELECT topic, partition, count(*) FROM stored_letters
        JOIN (SELECT unnest(?::VARCHAR[]) AS topic, unnest(?::INTEGER[]) AS partition, unnest(?::BIGINT[]) AS before)
        USING (topic, partition)
        WHERE "offset" < before GROUP BY topic, partition
        """,
        ([each.topic for each in found], [each.number for each in found], [each.before for each in found.values()]),
    )
    for topic, number, letters in counts:
        found[Partition(topic, number)].letters = letters
    return found


def topics_of(chosen: Mapping[Partition, Removable]) -> TopicIds:
    """Return the ids of the topics whose letters were read."""
    return TopicIds(ids={partition.topic: each.topic_id for partition, each in chosen.items() if each.topic_id})


def removable_letters(chosen: Mapping[Partition, Removable], failed: Container[Partition] = ()) -> int:
    """Return the number of letters that can be removed, without those of some partitions."""
    return sum(each.letters for partition, each in chosen.items() if partition not in failed)


class Purge(NamedTuple):
    """What can be removed from the start of each partition."""

    settings: LetterSource
    chosen: Mapping[Partition, Removable]
    topics: TopicIds
    """The ids of the topics before they were read."""

    @classmethod
    def of(cls, settings: LetterSource, index: Index, shown: Mapping[Partition, Removable] | None = None) -> Self:
        """Return what an index that is up to date says; with ``shown`` nothing but what was shown.

        Raises:
            RedriveError: a topic was created again since.
        """
        refuse_created_again(topics_of(shown or {}), index.topics, "removed")
        ends = None if shown is None else {partition: each.before for partition, each in shown.items()}
        chosen = removable(index, ends)
        index.refuse_changes(index.snapshot)
        return cls(settings, chosen, index.topics)

    def remove(self, by: str | None = None, note: str = "") -> dict[Partition, str]:
        """Remove it for good; return the partitions of which nothing is removed, each with the reason.

        Nothing is removed from a topic that was deleted and created again since its letters were read.

        ``by``: who does; if given, it is written to the audit trail first, with ``note``: why.

        Raises:
            RedriveError, TransportError: it cannot be written there, and nothing is removed.
        """
        if by is not None:
            about = f"{removable_letters(self.chosen)} letters from the start of each partition"
            topics = self.topics.only(topics_of(self.chosen).ids)
            write_note(self.settings, by, "purge", about, topics=topics, note=note)
        wanted: dict[str, dict[Partition, int]] = {}
        for partition, each in self.chosen.items():
            if each.letters:
                wanted.setdefault(partition.topic, {})[partition] = each.before
        if not wanted:
            return {}
        calls, before = PartitionOffsets(self.settings.kafka).calls, topics_of(self.chosen)
        deleter, failed = RecordDeleter(self.settings.kafka, calls=calls), dict[Partition, str]()
        for topic, ends in wanted.items():
            try:
                now = topic_ids(calls, [topic], cluster="")
            except TransportError as error:
                failed |= dict.fromkeys(ends, str(error))
                continue
            problem = before.only([topic]).difference(now, "its letters were read")
            failed |= dict.fromkeys(ends, f"{problem}; preview again") if problem else deleter.delete_before(ends)
        return failed

    def document(self, failed: Mapping[Partition, str]) -> dict[str, Any]:
        """Return it as plain data for JSON; ``failed``: the partitions of which Kafka removes nothing."""
        return {
            "removed": removable_letters(self.chosen, failed),
            "partitions": [
                {
                    "topic": partition.topic,
                    "partition": partition.number,
                    "letters": each.letters,
                    "before": each.before,
                    "then": each.because,
                    "problem": failed.get(partition),
                }
                for partition, each in self.chosen.items()
            ],
        }
