"""What a job would send, `purge` remove, and `export` print, as the index has it: seconds for a million letters.

A person looks at it, or a script with ``--dry-run``. Nothing else comes of it: the commands themselves read the topics.
"""

from __future__ import annotations

from collections.abc import Container

from kafka_redelivery.dead_letters.creation import Preview, Sorting
from kafka_redelivery.dead_letters.exporting import Exportable
from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.dead_letters.index.selecting import Condition, of_group, unexpired
from kafka_redelivery.dead_letters.letter import Letter, Selection
from kafka_redelivery.dead_letters.purge import DONE, Removable
from kafka_redelivery.dead_letters.rules import refuse_options
from kafka_redelivery.dead_letters.standing import LetterState, Standing
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.redrive.job import JobOptions
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.topology.wire.headers import DELIVERY_COUNT, ORIG_MESSAGE_ID, TIMESTAMP
from kafka_redelivery.topology.wire.redrive_mark import RedriveMark
from kafka_redelivery.transport.protocols import Partition


def indexed_preview(
    index: Index, settings: Settings, selection: Selection, options: JobOptions, topics: Container[str], now_ms: int
) -> Preview | None:
    """Return how many letters a job would send, without their offsets; ``None`` if the index cannot tell.

    Of headers that another program has damaged it knows the id of the source record and the number of deliveries; the
    job may refuse some more letters.

    Args:
        index: that of the group whose letters are meant, up to date.
        settings: how targets are named.
        selection: which letters are meant.
        options: those of the job.
        topics: the topics that the cluster shows.
        now_ms: the present (epoch ms).

    Raises:
        RedriveError: a target is refused or does not exist.
        IndexUnusableError: the index is damaged, and cannot be built anew.
    """
    refuse_options(settings, options)
    meant = index.condition(selection)
    if meant is None:
        return None
    wanted = of_group(options.group) & meant
    kinds = index.rows(
        f"""
        SELECT source_topic, attempts IS NULL, reason,
               expiration_ms > 0 AND expiration_ms <= ?, state, job, sends, redrives, count(*)
        FROM letters WHERE {wanted.sql} GROUP BY ALL
        """,  # noqa: S608 - conditions are compiled
        (now_ms, *wanted.parameters),
    )
    sorting = Sorting(settings, options, topics, now_ms)
    for source_topic, damaged, reason, expired, state, job, sends, redrives, number in kinds:
        letter = _letter(None if damaged else source_topic, reason or "", redrives, expired=expired)
        sorting.add(letter, Standing(LetterState(state), job, sends), number)
    sorting.refuse_missing()
    return sorting.preview


def indexed_removable(
    index: Index, group: str, ends: dict[Partition, int], topics: TopicIds
) -> dict[Partition, Removable]:
    """Return what `purge` would remove from each partition.

    Args:
        index: that of the group, up to date.
        group: whose letters may be removed.
        ends: the partitions, and the end of each.
        topics: the ids of the topics before the index was brought up to date.

    Raises:
        IndexUnusableError: the index is damaged, and cannot be built anew.
    """
    ours = of_group(group)
    done = Condition(f"({ours.sql}) AND state IN (SELECT unnest(?::VARCHAR[]))", (*ours.parameters, sorted(DONE)))
    ids = topics.ids
    found = {partition: Removable(end, topic_id=ids.get(partition.topic, "")) for partition, end in ends.items()}
    stays = index.rows(
        f"""
        SELECT topic, partition, min("offset"), arg_min(id, "offset"), arg_min(state, "offset"),
               arg_min(({ours.sql}), "offset")
        FROM letters WHERE NOT ({done.sql}) GROUP BY topic, partition
        """,  # noqa: S608 - conditions are compiled
        (*ours.parameters, *done.parameters),
    )
    for topic, number, before, name, state, is_ours in stays:
        because = f"{name} is {state}" if is_ours else f"{name} is not ours"
        found[Partition(topic, number)] = Removable(before, because=because, topic_id=ids.get(topic, ""))
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


def indexed_exportable(index: Index, group: str, selection: Selection, now_ms: int) -> Exportable | None:
    """Return what `export` would print; ``None`` if the index cannot tell.

    Args:
        index: that of the group, up to date.
        group: whose letters are meant.
        selection: which of them.
        now_ms: the present (epoch ms).

    Raises:
        IndexUnusableError: the index is damaged, and cannot be built anew.
    """
    meant = index.condition(selection)
    if meant is None:
        return None
    wanted, alive = of_group(group) & meant, unexpired(now_ms)
    kinds = index.rows(
        f"""
        SELECT origin, state, count(*), count(*) FILTER (NOT ({alive.sql}))
        FROM letters WHERE {wanted.sql} GROUP BY ALL
        """,  # noqa: S608 - conditions are compiled
        (*alive.parameters, *wanted.parameters),
    )
    found = Exportable()
    for origin, state, number, expired in kinds:
        found.add(origin or "", LetterState(state), number, expired)
    return found


def _letter(address: str | None, reason: str, redrives: int, *, expired: bool) -> Letter:
    """Return a letter that stands for all of its kind; without an address what it says about its origin is damaged."""
    place = f"{address}-0@0"
    headers = {ORIG_MESSAGE_ID: place.encode(), TIMESTAMP: b"0", DELIVERY_COUNT: b"0"} if address else {}
    mark = RedriveMark("", 0, 0, redrives) if redrives else None
    return Letter("", 0, 0, 0, None, headers, "", address or "", place, "0", reason, "", "", int(expired), mark)
