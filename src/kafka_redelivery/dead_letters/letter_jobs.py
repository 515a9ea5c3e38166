"""What the ledger says of one letter, taken at once: its story is read while the ledger goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.letter import Letter, Standing
from kafka_redelivery.dead_letters.reading import StoredLetter, letter_in, letter_partitions
from kafka_redelivery.dead_letters.source import LetterSource
from kafka_redelivery.topology.policy.lineage import parse_message_id
from kafka_redelivery.topology.redrive.actions import Outcome
from kafka_redelivery.topology.redrive.job import Job, SliceId
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.assigned_reader import read_between
from kafka_redelivery.transport.protocols import Message, Partition


def found_letter(
    settings: LetterSource, ledger: Ledger, name: str, *, skip_leaderless: bool = False
) -> tuple[StoredLetter, list[Standing]]:
    """Return the dead letter with this id, and where it stood after each job that has or had it.

    ``skip_leaderless`` is that of :meth:`Index.refreshed`; who changes something needs all partitions.

    Raises:
        RedriveError: there is none, or it is one of another group than the ledger.
        TransportError: Kafka does not answer or denies access.
    """
    letter, message = one_dead_letter(settings, ledger, name)
    with Index.refreshed(settings, ledger.group, letters=False, skip_leaderless=skip_leaderless) as index:
        history = index.history(letter.topic, letter.partition, letter.offset)
    return StoredLetter(letter, history[-1] if history else Standing(), message), history


def standings_of(settings: LetterSource, names: Iterable[str]) -> dict[str, Standing]:
    """Return where dead letters stand, by their ids.

    Raises:
        IndexUnusableError: no index can be written.
        RedriveError: the topics of the jobs do not exist, or may not be described.
        TransportError: Kafka does not answer or denies access.
    """
    places = {name: parse_message_id(name) for name in names}
    if not places:
        return {}
    with Index.refreshed(settings, letters=False, skip_leaderless=True) as index:
        return {name: [Standing(), *index.history(*place)][-1] for name, place in places.items()}


def one_dead_letter(settings: LetterSource, ledger: Ledger, name: str) -> tuple[Letter, Message]:
    """Return the dead letter with this id, and its record.

    Raises:
        RedriveError: there is none, or it is one of another group than the ledger.
        TransportError: Kafka does not answer or denies access.
    """
    try:
        topic, number, offset = parse_message_id(name)
    except ValueError as error:
        raise RedriveError(f"{error}; `redelivery dlq list --each` prints ids") from None
    partition = Partition(topic, number)
    shown = partition in letter_partitions(settings, ledger.partition_counts)
    if shown and offset < PartitionOffsets(settings.kafka).last_stable_offsets([partition])[partition]:
        for message in read_between(settings.kafka, settings.group, {partition: offset}, {partition: offset + 1}):
            letter = letter_in(message, settings)
            if letter.group and not ledger.has(letter):
                raise RedriveError(f"{name} is a dead letter of group {letter.group}; add --of-group {letter.group}")
            return letter, message
    raise RedriveError(
        f"there is no dead letter {name} (any more); `redelivery dlq list --each` prints ids, and with --id {name} the "
        "id of the letter, if this is its source record"
    )


class InJob(NamedTuple):
    """A job that the letter belongs to."""

    job: Job
    number: int
    """Its slice."""

    actions: Partition
    """Where the actions of the slice are."""

    reached: bool
    """Whether the slice has come to the letter."""

    outcome: Outcome | None
    """What became of it; ``None`` if nothing is known."""


@dataclass(frozen=True, slots=True)
class LetterJobs:
    """What the ledger says of one letter."""

    partition_counts: Mapping[str, int]
    """The topics of the cluster and their numbers of partitions."""

    sent_by: Job | None
    """The job that sent the letter that this one was before."""

    predecessor: str | None
    """The id of that letter; ``None`` if it is not known."""

    jobs: tuple[InJob, ...]
    """The jobs that it belongs to, in their order."""

    @classmethod
    def of(cls, ledger: Ledger, letter: Letter) -> LetterJobs:
        """Take it from the ledger, without a request to Kafka."""
        sent_by = None if letter.mark is None else ledger.jobs.jobs.get(letter.mark.job)
        return cls(ledger.partition_counts, sent_by, predecessor(ledger, letter), tuple(_jobs(ledger, letter)))


def predecessor(ledger: Ledger, letter: Letter) -> str | None:
    """Return the id of the letter that this one was before it was sent again; ``None`` if it is not known."""
    mark = letter.mark
    job = None if mark is None else ledger.jobs.jobs.get(mark.job)
    if mark is None or job is None or mark.slice >= len(job.spec.slices):
        return None
    topic, partition = job.spec.slices[mark.slice]
    if not job.spec.is_about(topic, ledger.topics):
        return None  # another letter has this id now
    return f"{topic}-{partition}@{mark.offset}"


def _jobs(ledger: Ledger, letter: Letter) -> Iterator[InJob]:
    for job in sorted(ledger.jobs.jobs.values(), key=lambda each: each.position):
        with suppress(ValueError):
            number = job.spec.slices.index(SliceId(letter.topic, letter.partition))
            if letter.offset in job.owned[number] and job.spec.is_about(letter.topic, ledger.topics):
                its = ledger.actions.slice(job.id, number)
                outcome = its.outcomes.get(letter.offset)
                yield InJob(job, number, ledger.actions_partition(number), its.through >= letter.offset, outcome)
