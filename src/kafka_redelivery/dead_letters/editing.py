"""A dead letter with another value: what a person may edit, and the job that sends it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.creation import Edit, Preview, create, preview
from kafka_redelivery.dead_letters.decoding import LetterCodecs
from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.letter_jobs import found_letter
from kafka_redelivery.dead_letters.reading import refuse_created_again
from kafka_redelivery.dead_letters.source import LetterSource
from kafka_redelivery.serdes.editing import Editable, editable
from kafka_redelivery.serdes.errors import EncodeError, SerdeError
from kafka_redelivery.serdes.framing import VALUE_HEADER, header_in
from kafka_redelivery.topology.redrive.job import Job, JobOptions

MAX_BYTES: Final = 8 * 2**20
"""Size of an edited value. It is kept in the topic of the jobs, which every command reads."""


class LetterEditing:
    """One dead letter whose value a person edits."""

    def __init__(self, settings: LetterSource, base: Path, name: str, options: JobOptions) -> None:
        """Find the letter, and refuse one that could not be sent or edited, before any work is put into it.

        Raises:
            RedriveError: there is no such letter, or it cannot be edited or sent; the message says why.
            TransportError: Kafka does not answer or denies access.
        """
        if not settings.dead_letters.edit:
            raise RedriveError("deadLetters.edit is false in the configuration: values are not edited here")
        self._settings, self._options, self._base = settings, options, base
        self.ledger = Ledger(settings, options.group)
        self.found, _ = found_letter(settings, self.ledger, name)
        with self._index() as index:
            self.chosen = self._preview(index)
            self.topics = index.topics.only([self.found.letter.topic])
            """The ids of the letter's topic, and of the cluster, before it was read."""
        value = self.found.message.value()
        if value is None:
            raise RedriveError(f"{name} has no value that could be edited: it is null")
        self.original: bytes = value
        try:
            self._codec = LetterCodecs(settings, base).of(self.found.letter)[1]
            self._header = header_in(self._codec, self.found.letter.headers.items(), VALUE_HEADER)
            self.form: Editable = editable(self._codec, value, self._header)
        except SerdeError as error:
            raise RedriveError(f"{name} cannot be edited: {error}") from error

    def _index(self) -> AbstractContextManager[Index]:
        return Index.refreshed(self._settings, self._options.group, base=self._base)

    def _preview(self, index: Index) -> Preview:
        letter, standing, _ = self.found
        selection = Selection(ids=frozenset({letter.id}), letters_only=True)
        topics = self.ledger.partition_counts
        chosen = preview(self._settings, index, selection, self._options, topics, wall_clock_ms())
        problem = ""
        if chosen.in_jobs:  # which it may be only since the letter was found
            job = next(iter(chosen.in_jobs))
            problem = f"job {job} has it; end that job first: {self.ledger.command('cancel', job)}"
        elif chosen.expired:
            problem = "it has expired"
        elif chosen.sent_before:
            since = "sent or set aside" if standing.may_be_sent(again=False) else standing.state
            problem = f"it is {since} already; --again sends it once more"
        elif chosen.parking:
            problem = f"it was sent again {self._options.max_redrives} times or more; --max-redrives allows more"
        elif chosen.refused:
            problem = "its headers do not say where it comes from, or what they say is damaged"
        elif not chosen.total:
            problem = "it has been deleted"
        if problem:
            raise RedriveError(f"{letter.id} cannot be sent: {problem}")
        return chosen

    @property
    def target(self) -> str:
        """The topic that the letter is sent to."""
        return next(iter(self.chosen.targets))

    def encode(self, text: str) -> bytes:
        """Return the value of an edited text.

        Raises:
            RedriveError: it is not a value of the format, or too large.
        """
        try:
            value = self.form.encode(text)
        except EncodeError as error:
            raise RedriveError(f"what was edited is not a value of the format: {error}") from error
        except SerdeError as error:  # the registry is away now
            raise RedriveError(f"what was edited cannot be checked: {error}") from error
        if len(value) > MAX_BYTES:
            raise RedriveError(f"an edited value has at most {MAX_BYTES} bytes, not {len(value)}")
        return value

    def text_of(self, value: bytes) -> str:
        """Return an encoded value as text, as :attr:`form` has the original."""
        return editable(self._codec, value, self._header).text

    def create(self, value: bytes, by: str | None = None, note: str = "") -> Job:
        """Write a job that sends the letter with this value, both in one transaction.

        ``by``: its author, if that is not the user of this process; ``note``: why.

        Raises:
            RedriveError: Kafka does not take it.
            TransportError: Kafka does not answer or denies access.
        """
        with self._index() as index:
            refuse_created_again(self.topics, index.topics)
            edit = Edit(self.original, value)
            return create(self.ledger, index, self._preview(index), edit, by, note)
