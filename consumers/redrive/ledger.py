"""Reads the topics of the jobs and the actions, and the dead letters themselves."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.consumers.redrive.job_reading import LeftOut, read_jobs
from kafka_redelivery.consumers.redrive.rules import letter_topics
from kafka_redelivery.consumers.redrive.second_deaths import SecondDeaths
from kafka_redelivery.topology.config.foreign_topic import ForeignTopic
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.errors import RedriveRecordError
from kafka_redelivery.topology.foreign.letter import foreign_letter
from kafka_redelivery.topology.policy.lineage import parse_message_id
from kafka_redelivery.topology.redrive.actions import ActionLog
from kafka_redelivery.topology.redrive.job import Job, JobLog, edited_value
from kafka_redelivery.topology.redrive.letter import Letter, letter_of
from kafka_redelivery.topology.redrive.standing import Standing, Standings
from kafka_redelivery.topology.wire.headers import HeaderList
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.client_config import servers_of
from kafka_redelivery.transport.clients.bounded_reader import read_between
from kafka_redelivery.transport.clients.message_headers import UnreadableHeadersError, headers_of
from kafka_redelivery.transport.errors import grant
from kafka_redelivery.transport.protocols import Message, Partition

_log = logging.getLogger(__name__)

_REPORTED_EACH = 1000

Progress = Callable[[int, int], None]
"""Receives the finished and the total number."""


def no_progress(done: int, total: int) -> None:
    """Do nothing: the progress is not shown."""


class Ledger:
    """What the topics of the jobs and the actions say. Not thread-safe."""

    def __init__(self, settings: Settings, group: str | None = None) -> None:
        """Read both topics to their ends.

        Args:
            settings: how to reach Kafka, and the names of topics.
            group: the group whose letters are meant, if not that of the settings. Its topics are read, so that all who
                send its letters see each other's jobs.

        Raises:
            RedriveError: one of them does not exist. Those of a foreign topic may be missing as long as it has no job.
            TransportError: Kafka does not answer or denies access.
        """
        self._settings = settings
        self.group = group or settings.group
        self._foreign = isinstance(settings, ForeignTopic)
        self._mapping = settings.mapping if isinstance(settings, ForeignTopic) else {}
        if self._foreign and self.group != settings.group:
            raise RedriveError("--of-group is for our own dead letters; select those of a group with --header")
        self.jobs_topic, self._actions_topic = redrive_topics(settings, self.group)
        self._admin, self._offsets = ClusterAdmin(settings.kafka), PartitionOffsets(settings.kafka)
        self.partition_counts: Mapping[str, int] = {}
        """The topics of the cluster and their numbers of partitions."""

        self.jobs = JobLog()
        self.actions = ActionLog()
        self.seen = 0
        """The end of the topic of the jobs that was read."""

        self.left_out = LeftOut()
        """The records of both topics that cannot be read."""

        self._read: dict[Partition, int] = {}
        self._second_deaths = SecondDeaths(settings) if isinstance(settings, ForeignTopic) else None
        self.refresh()

    def refresh(self) -> None:
        """Read what was added, up to ends that include open transactions, and thus waits for these."""
        self.partition_counts = self._admin.partition_counts()
        if self._foreign and self.jobs_topic not in self.partition_counts:
            return
        refuse_missing((self.jobs_topic, self._actions_topic), self.partition_counts, self.group)
        self.seen = read_jobs(self._settings, self.jobs_topic, self.jobs, self.seen, self.left_out)
        self.jobs.settle()
        partitions = (
            Partition(self._actions_topic, each) for each in range(self.partition_counts[self._actions_topic])
        )
        ends = self._offsets.high_watermarks(partitions)
        for message in read_between(self._settings.kafka, self._settings.group, self._read, ends):
            try:
                if not self.actions.add(message.key(), message.value()):
                    self.left_out.add(message)
            except RedriveRecordError as error:
                self.left_out.add(message, error)
        self._read = ends
        self.left_out.tell()
        if self._second_deaths is not None and self.jobs.jobs:
            ends = letter_ends(self._settings, self.partition_counts)
            self._second_deaths.note(self.jobs, self.actions, ends)

    def has(self, letter: Letter) -> bool:
        """Whether the jobs of this ledger are for the letter: another group's is another ledger's."""
        return self._foreign or letter.group == self.group

    def standings(self) -> Standings:
        """Return where letters stand now."""
        return Standings(self.jobs, self.actions)

    def job(self, name: str) -> Job:
        """Return a job.

        Raises:
            RedriveError: there is none with this name.
        """
        found = [job for job in self.jobs.jobs.values() if job.id.startswith(name)] if name else []
        if len(found) != 1:
            problem = "several jobs begin with" if found else "there is no job"
            raise RedriveError(f"{problem} {name!r}; `redelivery dlq jobs` lists them")
        return found[0]

    def command(self, name: str, job: str) -> str:
        """Return the command that a person enters for a job."""
        if self._foreign:
            servers = servers_of(self._settings.kafka)
            fields = "".join(f" --map {shlex.quote(f'{field}={header}')}" for field, header in self._mapping.items())
            return f"redelivery dlq --bootstrap {servers} --topic {self.group}{fields} {name} {job}"
        option = "" if self.group == self._settings.group else f" --of-group {self.group}"
        return f"redelivery dlq {name} {job}{option}"

    def actions_partition(self, number: int) -> Partition:
        """Return the partition to which slice ``number`` of a job writes."""
        return Partition(self._actions_topic, number % self.partition_counts[self._actions_topic])


def redrive_topics(settings: Settings, group: str) -> tuple[str, str]:
    """Return the topics of the jobs and the actions of a group."""
    naming = replace(settings.naming(), group=group)
    return naming.jobs_topic(), naming.actions_topic()


def refuse_missing(topics: Iterable[str], found: Container[str], group: str) -> None:
    """Refuse to go on without the topics of a group's jobs and actions.

    Raises:
        RedriveError: the cluster does not show one of them.
    """
    for topic in topics:
        if topic not in found:
            raise RedriveError(
                f"there is no topic {topic}, or it may not be described; run: redelivery topology apply, with the "
                f"configuration of group {group}{grant(f'Read on topic {topic}')}"
            )


def read_edited(settings: Settings, ledger: Ledger, job: Job) -> bytes:
    """Return the value that a job sends instead of that of its letter.

    Raises:
        RedriveRecordError: it cannot be read as it was written.
        TransportError: Kafka does not answer or denies access.
    """
    if job.spec.edited is None or not job.edit_offsets:
        raise RedriveRecordError(job.id, "it has no edited value")
    partition, wanted = Partition(ledger.jobs_topic, 0), set(job.edit_offsets)
    starts, ends = {partition: min(wanted)}, {partition: max(wanted) + 1}
    found = read_between(settings.kafka, settings.group, starts, ends)
    return edited_value(job.spec.edited, [each.value() for each in found if each.offset() in wanted])


class Found(NamedTuple):
    """A dead letter, where it stands, and its record."""

    letter: Letter
    standing: Standing
    message: Message


def dead_letters(
    settings: Settings, ledger: Ledger, progress: Progress, ends: Mapping[Partition, int] | None = None
) -> Iterator[Found]:
    """Yield all dead letters, those of other groups included.

    Args:
        settings: how to reach Kafka, and the names of topics.
        ledger: what became of the letters.
        progress: receives the number of letters that were read, now and then.
        ends: yield the letters below these; without it, below the present ends.

    Raises:
        RedriveError: the cluster shows no dead-letter topic.
        TransportError: Kafka does not answer or denies access.
    """
    ends = letter_ends(settings, ledger.partition_counts) if ends is None else ends
    starts = PartitionOffsets(settings.kafka).log_start_offsets(ends)
    total, standings = sum(max(0, end - starts[each]) for each, end in ends.items()), ledger.standings()
    for number, message in enumerate(read_between(settings.kafka, settings.group, starts, ends)):
        if number % _REPORTED_EACH == 0:
            progress(number, total)
        yield found(message, standings, settings)


def one_dead_letter(settings: Settings, ledger: Ledger, name: str) -> Found:
    """Return the dead letter with this id.

    Raises:
        RedriveError: there is none, or it is one of another group than the ledger.
        TransportError: Kafka does not answer or denies access.
    """
    try:
        topic, number, offset = parse_message_id(name)
    except ValueError as error:
        raise RedriveError(f"{error}; `redelivery dlq list --each` prints ids") from None
    partition = Partition(topic, number)
    ends = letter_ends(settings, ledger.partition_counts)
    if offset < ends.get(partition, 0):
        for message in read_between(settings.kafka, settings.group, {partition: offset}, {partition: offset + 1}):
            each = found(message, ledger.standings(), settings)
            group = each.letter.group
            if group and not ledger.has(each.letter):
                raise RedriveError(f"{name} is a dead letter of group {group}; add --of-group {group}")
            return each
    raise RedriveError(f"there is no dead letter {name} (any more) in the dead-letter topics of the configuration")


def found(message: Message, standings: Standings, settings: Settings) -> Found:
    """Return a record of a dead-letter topic with all that is known about it."""
    headers: HeaderList = []
    with suppress(UnreadableHeadersError):
        headers = headers_of(message)
    place = message.topic(), message.partition(), message.offset()
    if isinstance(settings, ForeignTopic):
        letter = foreign_letter(place, message.timestamp()[1], message.key(), headers, settings.mapping)
    else:
        class_only = settings.failure_details.class_only
        letter = letter_of(*place, message.timestamp()[1], message.key(), headers, class_only=class_only)
    return Found(letter, standings.of(*place), message)


def letter_ends(settings: Settings, partition_counts: Mapping[str, int]) -> dict[Partition, int]:
    """Return the present ends of the dead-letter topics, without open transactions.

    Raises:
        RedriveError: the cluster shows none of them.
        TransportError: Kafka does not answer or denies access.
    """
    return PartitionOffsets(settings.kafka).last_stable_offsets(letter_partitions(settings, partition_counts))


def letter_partitions(settings: Settings, partition_counts: Mapping[str, int]) -> list[Partition]:
    """Return the partitions of the dead-letter topics, and log a warning that names those that are not shown.

    Raises:
        RedriveError: the cluster shows none of them.
    """
    topics = letter_topics(settings)
    hidden = [topic for topic in topics if topic not in partition_counts]
    right = grant(f"Read on topic {', '.join(hidden)}")
    if len(hidden) == len(topics):
        raise RedriveError(
            f"there is no dead-letter topic {', '.join(topics)}, or none may be described; see `redelivery topology "
            f"check`{right}"
        )
    if hidden:
        _log.warning(
            "dead letters in %s are left out: it does not exist, or may not be described%s", ", ".join(hidden), right
        )
    return [Partition(topic, number) for topic in topics for number in range(partition_counts.get(topic, 0))]
