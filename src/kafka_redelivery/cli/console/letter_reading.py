"""One dead letter with its bytes: one record is read from its topic."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kafka_redelivery.cli.console.letters import IndexState
from kafka_redelivery.cli.views.dlq_show import Shown, sending_again
from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.decoding import LetterCodecs
from kafka_redelivery.dead_letters.index.index import LetterRow
from kafka_redelivery.dead_letters.reading import StoredLetter, letter_in
from kafka_redelivery.dead_letters.standing import Standing
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.policy.lineage import parse_message_id
from kafka_redelivery.transport.clients.bounded_reader import read_between
from kafka_redelivery.transport.errors import TransportError
from kafka_redelivery.transport.protocols import Partition

_WITHIN_S: Final = 15.0
"""A read takes some milliseconds. This is longer than the console takes to notice that Kafka is away."""


class KafkaAwayError(TransportError):
    """What is asked for is in Kafka alone, which does not answer."""


def read_letter(settings: Settings, row: LetterRow, state: IndexState | None) -> StoredLetter:
    """Return a letter that the index has, with its record, soon or not at all.

    Raises:
        RedriveError: it is not in its topic any more.
        TransportError: Kafka does not answer or denies access.
    """
    topic, number, offset = parse_message_id(row.id)
    partition = Partition(topic, number)
    if state is None or offset < state.ends.get(partition, offset + 1):
        starts, ends = {partition: offset}, {partition: offset + 1}
        for message in read_between(settings.kafka, settings.group, starts, ends, stalled_s=_WITHIN_S):
            return StoredLetter(letter_in(message, settings), Standing(row.state, row.job, row.sends), message)
    raise RedriveError(f"the letter {row.id} is not in its topic any more")


def shown_of(settings: Settings, base: Path, found: StoredLetter) -> Shown:
    """Return a letter as `redelivery dlq show` shows it, without its story."""
    key, value = LetterCodecs(settings, base).decoded(found.letter, found.message.value())
    command = " ".join(("redelivery dlq", *sending_again(found.standing, found.letter.id)))
    return Shown(found, key, value, (), (), command)
