"""Removes dead letters that are done from the start of their partitions; Kafka can remove nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_redelivery.consumers.redrive.dead_letters import ReportProgress, dead_letters
from kafka_redelivery.consumers.redrive.ledger import Ledger
from kafka_redelivery.consumers.redrive.letter_places import letter_ends
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.redrive.standing import LetterState
from kafka_redelivery.transport.admin.record_deletion import RecordDeleter
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


def removable(
    settings: Settings, ledger: Ledger, progress: ReportProgress, ends: Mapping[Partition, int] | None = None
) -> dict[Partition, Removable]:
    """Return what can be removed from each partition: its first letters up to one that is not done, or not ours.

    Args:
        settings: how to reach Kafka, and the names of topics.
        ledger: says where letters stand.
        progress: receives the number of letters that were read, now and then.
        ends: remove letters below these alone; ``None`` = below the present ends.

    Raises:
        RedriveError: there is no dead-letter topic.
        TransportError: Kafka does not answer or denies access.
    """
    ends = letter_ends(settings, ledger.partition_counts) if ends is None else ends
    found = {partition: Removable(end) for partition, end in ends.items()}
    stopped: set[Partition] = set()
    for letter, standing, _ in dead_letters(settings, ledger, progress, ends):
        partition = Partition(letter.topic, letter.partition)
        if partition in stopped:
            continue
        if ledger.has(letter) and standing.state in DONE:
            found[partition].letters += 1
            continue
        stopped.add(partition)
        found[partition].before = letter.offset
        ours = ledger.has(letter)
        found[partition].because = f"{letter.id} is {standing.state}" if ours else f"{letter.id} is not ours"
    return found


def remove(settings: Settings, chosen: dict[Partition, Removable]) -> dict[Partition, str]:
    """Remove the letters; return the partitions of which Kafka removes nothing, each with the reason."""
    wanted = {partition: each.before for partition, each in chosen.items() if each.letters}
    return dict(RecordDeleter(settings.kafka).delete_before(wanted)) if wanted else {}
