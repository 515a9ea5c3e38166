"""From a dead letter to the record that is sent: where to, and with which headers; of ours, and of another system's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.foreign.letter import lacks_content, sent_again, system_of
from kafka_redelivery.dead_letters.foreign.systems import UNKNOWN, System, is_claimed
from kafka_redelivery.dead_letters.pointers import Source
from kafka_redelivery.dead_letters.source import LetterSource, OtherSystem, letter_topics, with_systems_of
from kafka_redelivery.topology.cluster.sweep_plan import sweep_plan
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.redrive.job import JobOptions, JobSpec
from kafka_redelivery.topology.topics.naming import Naming
from kafka_redelivery.topology.wire.headers import (
    EXPIRATION,
    MAX_MARK,
    ORIG_QUEUE,
    HeaderList,
    RedriveMark,
    read_lineage,
    redriven_headers,
)
from kafka_redelivery.transport.clients.message_headers import headers_of
from kafka_redelivery.transport.protocols import Message, ProducerRecord


def refuse_target(settings: Settings, options: JobOptions) -> None:
    """Refuse a target that only others, or only this project, may write to.

    Raises:
        RedriveError: it is a source, a dead-letter topic or an internal topic; or the options exclude each other.
    """
    if options.to is not None and options.ready is not None:
        raise RedriveError("--to and --ready exclude each other: leave one of them out")
    if options.ready is not None and options.group == settings.group:
        raise RedriveError("--ready is for the letters of another group: name it with --of-group, or leave --ready out")
    for option, topic in (("--to", options.to), ("--ready", options.ready)):
        if topic is None:
            continue
        if any(topic == source.topic for source in settings.sources):
            raise RedriveError(
                f"{option} {topic} is a source of group {settings.group}, which every group that reads it would see: "
                f"leave {option} out to send to the ready topic, which only {options.group} reads"
            )
        if topic in sweep_plan(settings).topics:
            raise RedriveError(f"{option} {topic} is a dead-letter topic; choose another one")
        for naming in (settings.naming(), replace(settings.naming(), group=options.group)):
            if topic in naming.internal_topics() or naming.tiers_among([topic]) or topic.startswith("__"):
                raise RedriveError(f"{option} {topic} is an internal topic; choose another one")
            if option == "--to" and naming.ready_topics_among([topic]):
                raise RedriveError(f"--to {topic} is a ready topic; leave --to out to send to ready topics")


class _Copies:
    fix: str
    """What to do about a target that does not exist."""

    def __init__(self, naming: Naming, options: JobOptions, partition_counts: Mapping[str, int]) -> None:
        self._naming, self._options, self._counts = naming, options, partition_counts
        self.parking = naming.parking_topic()
        """Takes letters that were sent again too often."""

    def _count(self, topic: str) -> int:
        if topic not in self._counts:
            raise RedriveError(f"there is no topic {topic}, or it may not be described; {self.fix}")
        return self._counts[topic]


class Copies(_Copies):
    """Where the letters of a job are sent, and the records that they become."""

    def __init__(self, settings: Settings, options: JobOptions, partition_counts: Mapping[str, int]) -> None:
        super().__init__(replace(settings.naming(), group=options.group), options, partition_counts)
        is_ours = options.group == settings.group
        self._entries = settings.entries() if is_ours else {}
        self.fix = "run: redelivery topology apply" if is_ours else "name it with --ready TOPIC"
        self._targets: dict[str, str] = {}
        """Answers that were given: the letters of a job come from few sources."""

    def target_of(self, origin: str | None) -> str | None:
        """Return the target of the letters of a source topic; ``None`` if what they say about it is damaged."""
        return None if origin is None else self._target(origin)

    def _target(self, origin: str) -> str:
        found = self._targets.get(origin)
        if found is None:
            options = self._options
            found = self._targets[origin] = options.to or options.ready or self._naming.ready_topic(origin)
        return found

    def record(
        self, message: Message, headers: HeaderList, mark: RedriveMark, now_ms: int, source: Source | None = None
    ) -> tuple[ProducerRecord, bool]:
        """Return the record that a letter becomes, and whether it goes to the parking topic.

        It goes there if it was sent again too often. Else its attempts begin anew, and so does its expiration, as the
        policy would set it now, and its partition follows from its origin.

        Args:
            message: the letter.
            headers: its headers.
            mark: the mark of the copy.
            now_ms: epoch ms.
            source: unused: our letters have all of their records.

        Raises:
            HeaderError: what the letter says about its origin is damaged.
            RedriveError: the target does not exist.
        """
        del source
        lineage = read_lineage(headers)
        if mark.number > self._options.max_redrives:
            return self._parked(message, headers, lineage), True
        return self._copy(message, headers, lineage, mark, now_ms), False

    def refuse_others(self, headers: HeaderList) -> None:
        """Refuse a letter of another group, which the index has taken for one of this group.

        Raises:
            RedriveError: it is one.
        """
        group = (dict(headers).get(ORIG_QUEUE) or b"").decode(errors="replace")
        if group != self._options.group:
            raise RedriveError(f"it is a dead letter of group {group!r}")

    def _copy(
        self, message: Message, headers: HeaderList, lineage: Lineage, mark: RedriveMark, now_ms: int
    ) -> ProducerRecord:
        options = self._options
        entry = self._entries.get(lineage.address)
        text = str(mark) if options.to is None else ""
        lineage = Lineage(
            lineage.address,
            lineage.partition,
            lineage.offset,
            lineage.timestamp_ms,
            lineage.deliveries if options.keep_attempts else 0,
            0 if entry is None else entry.expiration_ms(0, now_ms),
            lineage.persistent,
            text if len(text) <= MAX_MARK else "",
        )
        topic = self._target(lineage.address)
        return ProducerRecord(
            topic,
            lineage.partition % self._count(topic),
            message.key(),
            message.value(),
            redriven_headers(headers, lineage, options.group),
        )

    def _parked(self, message: Message, headers: HeaderList, lineage: Lineage) -> ProducerRecord:
        """Return the letter itself, without its expiration."""
        kept = [pair for pair in headers if pair[0] != EXPIRATION]
        number = lineage.partition % self._count(self.parking)
        return ProducerRecord(self.parking, number, message.key(), message.value(), kept)


def refuse_foreign_options(settings: OtherSystem, options: JobOptions) -> None:
    """Refuse options that only our own dead letters have, and a target that only this project, or Kafka, writes to.

    Raises:
        RedriveError: an option is refused.
    """
    if options.ready is not None:
        raise RedriveError("--ready is for dead letters of a group of ours; name a topic with --to, or leave it out")
    if options.keep_attempts:
        raise RedriveError("--keep-attempts is for our own dead letters: other systems count attempts themselves")
    if options.to is not None and _forbidden(settings, options.to):
        raise RedriveError(f"--to {options.to} is a dead-letter topic or an internal topic; choose another one")


def _forbidden(settings: OtherSystem, topic: str) -> bool:
    return topic == settings.dead_letter_topic or topic in settings.naming().internal_topics() or topic.startswith("__")


class ForeignCopies(_Copies):
    """The counterpart of :class:`Copies` for another system's letters."""

    fix = "create it, or name another one with --to TOPIC"

    def __init__(self, settings: OtherSystem, options: JobOptions, partition_counts: Mapping[str, int]) -> None:
        super().__init__(settings.naming(), options, partition_counts)
        self._settings = settings

    def target_of(self, origin: str | None) -> str | None:
        """Return the target of letters; ``None`` if their headers name none, or one that they must not be sent to."""
        topic = self._options.to or origin
        return topic if topic and not _forbidden(self._settings, topic) else None

    def refuse_others(self, headers: HeaderList) -> None:
        """Do nothing: all letters of the topic are meant."""

    def record(
        self, message: Message, headers: HeaderList, mark: RedriveMark, now_ms: int, source: Source | None = None
    ) -> tuple[ProducerRecord, bool]:
        """Return the record that a letter becomes, and whether it goes to the parking topic.

        It goes there with all its headers if it was sent again too often. Else it is the record that the system had
        read: in the partition that the headers name; without one, in that of its key, as Java clients choose it;
        without a key, in the one with the number of its own. A letter without content gets that of ``source``.

        Raises:
            RedriveError: the headers do not name a target, or it does not exist; or the letter has no content.
        """
        del now_ms  # other systems have no expiration of their own
        system = system_of(headers, self._settings.recognition)
        if is_claimed(system.name):
            raise RedriveError(f"claimed: {system.name} could have written it; say which one with --system")
        content, given = self._content(system, message, headers, source)
        if mark.number > self._options.max_redrives:
            number = message.partition() % self._count(self.parking)
            return ProducerRecord(self.parking, number, content.key(), content.value(), headers), True
        failure = system.read(headers)
        topic = self.target_of(failure.topic)
        if topic is None and not (failure.topic or self._options.to) and system is UNKNOWN:
            raise RedriveError("system not recognised; use --map or --to")
        if topic is None:
            named = self._options.to or failure.topic
            raise RedriveError(f"its headers name no topic that it could be sent to: {named!r}; see --to and --map")
        text = str(mark) if self._options.to is None else ""
        kept = sent_again(given, system, text if len(text) <= MAX_MARK else "")
        partition = self._partition(topic, failure.partition, message)
        return ProducerRecord(topic, partition, content.key(), content.value(), kept), False

    def _content(
        self, system: System, message: Message, headers: HeaderList, source: Source | None
    ) -> tuple[Message, HeaderList]:
        """Return what has key and value of the record, and its headers, from which those of the failure are removed.

        Raises:
            RedriveError: the letter has no content, and its record is not there.
        """
        record = None if source is None else source.record
        empty = lacks_content(system, message.key(), has_value=message.value() is not None)
        if not empty or self._options.allow_empty:
            if self._options.restore_headers and record is not None and _same(record, message):
                return message, headers_of(record)
            return message, headers
        if record is not None:
            return record, headers_of(record)
        missing = "neither key nor value" if message.key() is None else "no value"
        if source is not None:
            if source.waits:
                raise RedriveError(f"it has {missing}, and {source.problem}; send it again when that has ended")
            raise RedriveError(f"gone: it has {missing}, and {source.problem}; --allow-empty sends it as it is")
        raise RedriveError(
            f"no_content: it has {missing}, and its headers do not say where its record is; send the record from its "
            "source, or the letter as it is with --allow-empty"
        )

    def _partition(self, topic: str, named: int | None, message: Message) -> int | None:
        count = self._count(topic)
        if named is not None:
            return named % count
        return None if message.key() is not None else message.partition() % count


def _same(record: Message, letter: Message) -> bool:
    return (record.key(), record.value()) == (letter.key(), letter.value())


def copies(
    settings: LetterSource, group: str, spec: JobSpec, partition_counts: Mapping[str, int]
) -> Copies | ForeignCopies:
    """Return what makes the records of a job.

    Args:
        settings: how to reach Kafka, and the names of topics.
        group: the group whose jobs were read.
        spec: the job. Each user with Write on the topic can have written it, so it is checked like a new one.
        partition_counts: the topics of the cluster.

    Raises:
        RedriveError: no command creates the job with this configuration.
    """
    options = spec.options
    others = {each.topic for each in spec.slices}.difference(letter_topics(settings))
    problem = f"{', '.join(sorted(others))} is no dead-letter topic of the configuration" if others else ""
    try:
        refuse_options(settings, options)
    except RedriveError as error:
        problem = str(error)
    if options.group != group:
        problem = f"it is for the dead letters of group {options.group}"
    if problem:
        raise RedriveError(
            f"job {spec.job} is not sent: {problem}. It was created with another configuration, or forged: "
            "`redelivery dlq jobs` says by whom, `redelivery dlq cancel` frees its letters"
        )
    return copies_of(with_systems_of(settings, spec), options, partition_counts)


def copies_of(
    settings: LetterSource, options: JobOptions, partition_counts: Mapping[str, int]
) -> Copies | ForeignCopies:
    """Return what says where letters are sent and makes their records; options have been refused before."""
    if isinstance(settings, OtherSystem):
        return ForeignCopies(settings, options, partition_counts)
    return Copies(settings, options, partition_counts)


def refuse_options(settings: LetterSource, options: JobOptions) -> None:
    """Refuse options that exclude each other, and targets that a job must not write to.

    Raises:
        RedriveError: an option is refused.
    """
    if isinstance(settings, OtherSystem):
        refuse_foreign_options(settings, options)
    elif options.allow_empty or options.restore_headers:
        option = "--allow-empty" if options.allow_empty else "--restore-headers"
        raise RedriveError(f"{option} is for dead letters of other systems: ours have the record that was read")
    else:
        refuse_target(settings, options)
