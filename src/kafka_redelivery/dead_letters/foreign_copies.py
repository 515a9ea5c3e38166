"""From a dead letter of another system to the record that is sent: to the topic that its headers name."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.foreign.letter import lacks_content, sent_again, system_of
from kafka_redelivery.topology.config.foreign_topic import ForeignTopic
from kafka_redelivery.topology.redrive.job import JobOptions
from kafka_redelivery.topology.wire.headers import HeaderList
from kafka_redelivery.topology.wire.redrive_mark import MAX_MARK, RedriveMark
from kafka_redelivery.transport.protocols import Message, ProducerRecord


class ForeignTargets:
    """The topics that letters are sent to."""

    def __init__(self, settings: ForeignTopic, options: JobOptions) -> None:
        self._settings, self._options = settings, options
        self.parking = settings.naming().parking_topic()
        """Takes letters that were sent again too often."""

    @property
    def fix(self) -> str:
        """What to do about a target that does not exist."""
        return "create it, name another one with --to TOPIC"

    def of_origin(self, origin: str | None) -> str | None:
        """Return the target of letters; ``None`` if their headers name none, or one that they must not be sent to."""
        topic = self._options.to or origin
        return topic if topic and not _forbidden(self._settings, topic) else None


def refuse_foreign_options(settings: ForeignTopic, options: JobOptions) -> None:
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


def _forbidden(settings: ForeignTopic, topic: str) -> bool:
    return topic == settings.dead_letter_topic or topic in settings.naming().internal_topics() or topic.startswith("__")


class ForeignCopies:
    """Makes the records of a job; the counterpart of :class:`dead_letters.copies.Copies`."""

    def __init__(self, settings: ForeignTopic, options: JobOptions, partition_counts: Mapping[str, int]) -> None:
        self._settings, self._options, self._counts = settings, options, partition_counts
        self._parking = settings.naming().parking_topic()

    def refuse_others(self, headers: HeaderList) -> None:
        """Do nothing: all letters of the topic are meant."""

    def record(
        self, message: Message, headers: HeaderList, mark: RedriveMark, now_ms: int
    ) -> tuple[ProducerRecord, bool]:
        """Return the record that a letter becomes, and whether it goes to the parking topic.

        It goes there unchanged if it was sent again too often. Else it is the record that the system had read: in the
        partition that the headers name; without one, in that of its key, as Java clients choose it; without a key, in
        the one with the number of its own.

        Raises:
            RedriveError: the headers do not name a target, or it does not exist; or the letter has no content.
        """
        del now_ms  # other systems have no expiration of their own
        if mark.number > self._options.max_redrives:
            number = message.partition() % self._count(self._parking)
            return ProducerRecord(self._parking, number, message.key(), message.value(), headers), True
        system = system_of(headers, self._settings.mapping)
        failure = system.read(dict(headers))
        topic = self._options.to or failure.topic
        if not topic or _forbidden(self._settings, topic):
            raise RedriveError(f"its headers name no topic that it could be sent to: {topic!r}; see --to and --map")
        if not self._options.allow_empty and lacks_content(
            system, message.key(), has_value=message.value() is not None
        ):
            missing = "neither key nor value" if message.key() is None else "no value"
            raise RedriveError(
                f"no_content: it has {missing}, and its headers do not say that the record had none; send the record "
                "from its source, or the letter as it is with --allow-empty"
            )
        text = str(mark) if self._options.to is None else ""
        kept = sent_again(headers, system, text if len(text) <= MAX_MARK else "")
        partition = self._partition(topic, failure.partition, message)
        return ProducerRecord(topic, partition, message.key(), message.value(), kept), False

    def _partition(self, topic: str, named: int | None, message: Message) -> int | None:
        count = self._count(topic)
        if named is not None:
            return named % count
        return None if message.key() is not None else message.partition() % count

    def _count(self, topic: str) -> int:
        if topic not in self._counts:
            raise RedriveError(f"there is no topic {topic}, or it may not be described; create it, or see --to")
        return self._counts[topic]
