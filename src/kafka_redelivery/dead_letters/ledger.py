"""The topics of the jobs and the actions: which job has which letters, what became of them, and who writes it."""

from __future__ import annotations

import getpass
import logging
import socket
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.letter import Letter
from kafka_redelivery.dead_letters.reading import letter_ends
from kafka_redelivery.dead_letters.second_deaths import SecondDeaths
from kafka_redelivery.dead_letters.source import LetterSource, OtherSystem, letter_topics, refuse_group
from kafka_redelivery.topology.cluster.changes import Changes, CreateTopic
from kafka_redelivery.topology.cluster.plan import PlannedTopic, redrive_topics
from kafka_redelivery.topology.errors import RedriveRecordError
from kafka_redelivery.topology.redrive.actions import ActionLog
from kafka_redelivery.topology.redrive.job import Job, JobLog, edited_value
from kafka_redelivery.topology.redrive.records import StoredRecord
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.admin.topics import topic_ids
from kafka_redelivery.transport.assigned_reader import read_between
from kafka_redelivery.transport.client_config import producer_config, servers_of
from kafka_redelivery.transport.clients.writer import TransactionalWriter
from kafka_redelivery.transport.errors import (
    RefusalCause,
    RefusedRecord,
    WriteAbortedError,
    WriteRefusedError,
    WriterFencedError,
    grant,
)
from kafka_redelivery.transport.protocols import Message, Partition, ProducerRecord

_log = logging.getLogger(__name__)

_NAMED: Final = 20
_ATTEMPTS: Final = 3


class LeftOut:
    """The records of the jobs and the actions that cannot be read. They are a problem of what they are about alone."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[tuple[str, str]] = []
        """The first of them: ``topic-partition@offset``, and why it cannot be read."""

        self._told = 0

    def add(self, message: Message, error: RedriveRecordError | None = None) -> None:
        """Add a record; without an error another program wrote it."""
        self.count += 1
        if len(self.first) < _NAMED:
            why = "another program wrote it; do not let it write there" if error is None else str(error)
            self.first.append((f"{message.topic()}-{message.partition()}@{message.offset()}", why))

    def tell(self) -> None:
        """Log a warning for each record that was added since the last call, as far as they are named."""
        for name, why in self.first[self._told :]:
            _log.warning("%s is left out: %s", name, why)
        unnamed = self.count - max(self._told, len(self.first))
        if unnamed > 0:
            _log.warning("%d more records are left out", unnamed)
        self._told = self.count


def read_jobs(
    settings: LetterSource,
    topic: str,
    log: JobLog,
    start: int,
    left_out: LeftOut,
    *,
    settled: bool = True,
    offsets: PartitionOffsets | None = None,
) -> int:
    """Add the records of the jobs to a log, and return the end that was read.

    The records of a job are one transaction. An end that counts records of open transactions may lie between them, so
    what these have written by then is read, too. Otherwise letters of a job that seems to be known could be listed by
    another one.

    Args:
        settings: how to reach Kafka.
        topic: the topic of the jobs.
        log: gets the records. It has to be settled.
        start: the offset to read first.
        left_out: gets the records that cannot be read.
        settled: whether to wait for transactions that are open now.
        offsets: asks for the end of the topic; without it a new client does.

    Raises:
        TransportError: Kafka does not answer or denies access.
    """
    offsets, partition = offsets or PartitionOffsets(settings.kafka), Partition(topic, 0)
    ends = [offsets.high_watermarks, offsets.last_stable_offsets] if settled else [offsets.last_stable_offsets]
    for end_of in ends:
        end = end_of([partition])[partition]
        for message in read_between(settings.kafka, settings.group, {partition: start}, {partition: end}):
            try:
                if not log.add(message.offset(), message.key(), message.value()):
                    left_out.add(message)
            except RedriveRecordError as error:
                left_out.add(message, error)
        start = max(start, end)
    return start


def read_edited(settings: LetterSource, jobs_topic: str, job: Job) -> bytes:
    """Return the value that a job sends instead of that of its letter.

    Raises:
        RedriveRecordError: it cannot be read as it was written.
        TransportError: Kafka does not answer or denies access.
    """
    if job.spec.edited is None or not job.edit_offsets:
        raise RedriveRecordError(job.id, "it has no edited value")
    partition, wanted = Partition(jobs_topic, 0), set(job.edit_offsets)
    starts, ends = {partition: min(wanted)}, {partition: max(wanted) + 1}
    found = read_between(settings.kafka, settings.group, starts, ends)
    return edited_value(job.spec.edited, [each.value() for each in found if each.offset() in wanted])


class Ledger:
    """What the topics of the jobs and the actions say. Not thread-safe."""

    topics = TopicIds()
    """The ids of the dead-letter topics, and of those of the jobs and the actions, at the last :meth:`refresh`."""

    def __init__(self, settings: LetterSource, group: str | None = None, *, skip_leaderless: bool = False) -> None:
        """Read both topics to their ends.

        Args:
            settings: how to reach Kafka, and the names of topics.
            group: the group whose letters are meant, if not that of the settings. Its topics are read, so that all who
                send its letters see each other's jobs.
            skip_leaderless: whether actions in a partition without a leader are left out, and :attr:`unread` names it.
                Who changes something needs them all.

        Raises:
            RedriveError: one of them does not exist. Those of a foreign topic may be missing as long as it has no job.
            TransportError: Kafka does not answer or denies access.
        """
        self._settings, self._skip_leaderless = settings, skip_leaderless
        self.unread: frozenset[Partition] = frozenset()
        self.group = group or settings.group
        self._foreign = isinstance(settings, OtherSystem)
        refuse_group(settings, self.group)
        self.jobs_topic, self._actions_topic = job_topics(settings, self.group)
        self._admin, self._offsets = ClusterAdmin(settings.kafka), PartitionOffsets(settings.kafka)
        self.partition_counts: Mapping[str, int] = {}
        """The topics of the cluster and their numbers of partitions."""

        self._cluster: str | None = None
        self._named: set[str] = set()
        """Topics that were named because there are jobs from before they were created again."""

        self.left_out = LeftOut()
        """The records of both topics that cannot be read."""

        self._forget()
        self.refresh()

    def _forget(self) -> None:
        """Begin to read both topics anew."""
        self.jobs = JobLog()
        self.actions = ActionLog()
        self.seen = 0
        """The end of the topic of the jobs that was read."""

        self._read: dict[Partition, int] = {}
        self._second_deaths = SecondDeaths(self._settings) if isinstance(self._settings, OtherSystem) else None

    def refresh(self) -> None:
        """Read what was added, up to ends that include open transactions, and thus waits for these."""
        listed = self._admin.led_topics(lambda _: [self._actions_topic] if self._skip_leaderless else [])
        self.partition_counts = listed.partition_counts
        before, self.topics = self.topics, self.present((*letter_topics(self._settings), *self._own_topics))
        if before.only(self._own_topics).difference(self.topics, ""):
            self._forget()
        if self._foreign and self.jobs_topic not in self.partition_counts:
            return
        refuse_missing((self.jobs_topic, self._actions_topic), self.partition_counts, self.group)
        self.seen = read_jobs(
            self._settings, self.jobs_topic, self.jobs, self.seen, self.left_out, offsets=self._offsets
        )
        self.jobs.settle()
        actions = {Partition(self._actions_topic, each) for each in range(self.partition_counts[self._actions_topic])}
        self.unread = listed.leaderless & actions if self._skip_leaderless else frozenset()
        ends = self._offsets.high_watermarks(actions - self.unread)
        for message in read_between(self._settings.kafka, self._settings.group, self._read, ends):
            try:
                if not self.actions.add(message.key(), message.value()):
                    self.left_out.add(message)
            except RedriveRecordError as error:
                self.left_out.add(message, error)
        self._read |= ends
        self.left_out.tell()
        if self._second_deaths is not None and self.jobs.jobs:
            ends = letter_ends(self._settings, self.partition_counts, self._offsets)
            self._second_deaths.note(self.jobs, self.actions, ends, self.topics)
        self._name_created_again()

    def present(self, topics: Iterable[str]) -> TopicIds:
        """Ask for the ids that topics have now.

        Raises:
            TransportError: Kafka does not answer or denies access.
        """
        found = topic_ids(self._offsets.calls, topics, cluster=self._cluster)
        self._cluster = found.cluster
        return found

    @property
    def _own_topics(self) -> tuple[str, str]:
        return self.jobs_topic, self._actions_topic

    def _name_created_again(self) -> None:
        """Log a warning for each topic with jobs from before it was created again."""
        for job in self.jobs.jobs.values():
            for topic in {each.topic for each in job.spec.slices} - self._named:
                if not job.spec.is_about(topic, self.topics):
                    self._named.add(topic)
                    why = job.spec.topics.only([topic]).difference(self.topics, f"job {job.id} was created")
                    _log.warning("%s; what jobs from before say is about other letters, so it is left out", why)

    def has(self, letter: Letter) -> bool:
        """Whether the jobs of this ledger are for the letter: another group's is another ledger's."""
        return self._foreign or letter.group == self.group

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

    def append(self, job: str, records: Iterable[StoredRecord]) -> None:
        """Write records of one job in one transaction, then read the topic of the jobs again.

        Raises:
            RedriveError: Kafka does not take them.
            TransportError: Kafka does not answer or denies access.
        """
        produced = [ProducerRecord(self.jobs_topic, 0, key, value) for key, value in records]
        before, problem = self._written(job), ""
        for _ in range(_ATTEMPTS):
            with closing(open_dlq_writer(self._settings, self.group, job)) as writer:
                try:
                    writer.write(produced, {})
                except (WriteAbortedError, WriterFencedError) as error:  # another process may end the same job
                    problem = str(error)
                except WriteRefusedError as error:
                    raise RedriveError(f"nothing is changed: {refusal(error.refused[0], produced)}") from error
            self.refresh()  # an aborted write may have been committed after all
            if self._written(job) != before:
                return
        raise RedriveError(
            f"Kafka does not take the records of job {job}, so nothing is changed: {problem}; run the command again"
        )

    def _written(self, name: str) -> tuple[bool, bool]:
        job = self.jobs.jobs.get(name)
        return job is not None, job is not None and job.cancelled_ms is not None

    def command(self, name: str, job: str) -> str:
        """Return the command that a person enters for a job."""
        options = self._settings.options()
        if isinstance(self._settings, OtherSystem):
            servers = servers_of(self._settings.kafka)
            return f"redelivery dlq --bootstrap {servers} --topic {self.group}{options} {name} {job}"
        group = "" if self.group == self._settings.group else f" --of-group {self.group}"
        return f"redelivery dlq {name} {job}{group}{options}"

    def actions_partition(self, number: int) -> Partition:
        """Return the partition to which slice ``number`` of a job writes."""
        return Partition(self._actions_topic, number % self.partition_counts[self._actions_topic])


def job_topics(settings: LetterSource, group: str) -> tuple[str, str]:
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


def open_dlq_writer(settings: LetterSource, group: str, name: str, *, one_attempt: bool = False) -> TransactionalWriter:
    """Open a transactional writer of a group; one with the same name is fenced, and its transaction ended.

    ``one_attempt``: as in :class:`TransactionalWriter`, for letters: a record of the jobs may be written twice.

    Raises:
        TransportError: Kafka does not answer or denies it.
    """
    config = producer_config(settings.kafka, transactional_id=f"{group}.dlq.{name}")
    return TransactionalWriter(config, None, one_attempt=one_attempt)


def refusal(refused: RefusedRecord, records: Sequence[ProducerRecord]) -> str:
    """Return which topic cannot be written, why, and what to do about a cause outside the record."""
    topic = records[refused.index].topic
    fix = ""
    if refused.cause is RefusalCause.FORBIDDEN:
        fix = grant(f"Write on topic {topic}")
    elif refused.cause is RefusalCause.CLOCK:
        fix = "; correct the clock of this machine"
    return f"{topic} cannot be written: {refused.reason}{fix}"


def author() -> str:
    """Return who runs this program, for the list of the jobs."""
    return f"{user_name()}@{socket.gethostname()}"


def user_name() -> str:
    """Return the user of this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without that user
        return "unknown"


def missing_topics(settings: OtherSystem) -> tuple[PlannedTopic, ...]:
    """Return the topics that do not exist yet, as they should be created.

    Raises:
        RedriveError: there is no such dead-letter topic.
        TransportError: Kafka does not answer or denies access.
    """
    name = settings.dead_letter_topic
    topics = ClusterAdmin(settings.kafka).describe([name, *settings.naming().internal_topics()], {}).topics
    if name not in topics:
        raise RedriveError(f"there is no topic {name}, or it may not be described; grant Describe and Read")
    return tuple(each for each in redrive_topics(settings.naming(), [topics[name]]) if each.name not in topics)


def create_topics(settings: OtherSystem, topics: tuple[PlannedTopic, ...]) -> None:
    """Create these topics.

    Raises:
        TransportError: Kafka does not answer, refuses or denies it.
    """
    ClusterAdmin(settings.kafka).apply(Changes(create=tuple(map(CreateTopic, topics))))
