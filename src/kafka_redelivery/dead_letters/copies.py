"""From a dead letter of ours to the record that is sent: where to, and with which headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.topology.cluster.sweep_plan import sweep_plan
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.redrive.job import JobOptions
from kafka_redelivery.topology.wire.headers import EXPIRATION, ORIG_QUEUE, HeaderList, read_lineage, redriven_headers
from kafka_redelivery.topology.wire.redrive_mark import MAX_MARK, RedriveMark
from kafka_redelivery.transport.protocols import Message, ProducerRecord


class Targets:
    """The topics that letters are sent to."""

    def __init__(self, settings: Settings, options: JobOptions) -> None:
        self._options = options
        self._ours = options.group == settings.group
        self._naming = replace(settings.naming(), group=options.group)
        self.parking = self._naming.parking_topic()
        """Takes letters that were sent again too often."""
        self._of: dict[str, str] = {}
        """Answers that were given: the letters of a job come from few sources."""

    @property
    def fix(self) -> str:
        """What to do about a target that does not exist."""
        return "run: redelivery topology apply" if self._ours else "name it with --ready TOPIC"

    def of(self, origin: str) -> str:
        """Return the target of the letters of a source topic."""
        found = self._of.get(origin)
        if found is None:
            options = self._options
            found = self._of[origin] = options.to or options.ready or self._naming.ready_topic(origin)
        return found

    def of_origin(self, origin: str | None) -> str | None:
        """Return the target of letters; ``None`` if what they say about their origin is damaged."""
        return None if origin is None else self.of(origin)


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


class Copies:
    """Makes the records of a job."""

    def __init__(self, settings: Settings, options: JobOptions, partition_counts: Mapping[str, int]) -> None:
        self._options = options
        self._entries = settings.entries() if options.group == settings.group else {}
        self._targets = Targets(settings, options)
        self._counts = partition_counts

    def record(
        self, message: Message, headers: HeaderList, mark: RedriveMark, now_ms: int
    ) -> tuple[ProducerRecord, bool]:
        """Return the record that a letter becomes, and whether it goes to the parking topic.

        It goes there if it was sent again too often. Else its attempts begin anew, and so does its expiration, as the
        policy would set it now, and its partition follows from its origin.

        Args:
            message: the letter.
            headers: its headers.
            mark: the mark of the copy.
            now_ms: epoch ms.

        Raises:
            HeaderError: what the letter says about its origin is damaged.
            RedriveError: the target does not exist.
        """
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
        topic = self._targets.of(lineage.address)
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
        number = lineage.partition % self._count(self._targets.parking)
        return ProducerRecord(self._targets.parking, number, message.key(), message.value(), kept)

    def _count(self, topic: str) -> int:
        if topic not in self._counts:
            raise RedriveError(
                f"there is no topic {topic}, or it may not be described; create it, or see --to and --ready"
            )
        return self._counts[topic]
