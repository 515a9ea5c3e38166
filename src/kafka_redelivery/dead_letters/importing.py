"""Sends exported dead letters back to their dead-letter topic, each exactly once.

A letter that is imported carries the id and the time under which it died (``dlqImportedFrom``). So a topic says which
letters it has, as they died or as imported ones, and an import that is repeated, or goes on after a crash, leaves these
out. The time tells letters apart that have the same id because the topic was deleted and created again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.ledger import open_dlq_writer, refusal
from kafka_redelivery.dead_letters.reading import (
    ReportProgress,
    letter_partitions,
    letter_topic_ids,
    refuse_created_again,
)
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.errors import ExportedLetterError
from kafka_redelivery.topology.policy.lineage import parse_message_id
from kafka_redelivery.topology.redrive.exported import ExportedLetter
from kafka_redelivery.topology.redrive.job import CHUNK, CHUNK_BYTES
from kafka_redelivery.topology.wire.headers import IMPORTED_FROM, ORIG_QUEUE, Headers, has_expired, read_expiration
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.assigned_reader import read_between
from kafka_redelivery.transport.clients.message_headers import readable_headers
from kafka_redelivery.transport.clients.writer import TransactionalWriter
from kafka_redelivery.transport.errors import (
    WriteAbortedError,
    WriterChangedError,
    WriteRefusedError,
    WriterFencedError,
)
from kafka_redelivery.transport.protocols import Message, Partition, ProducerRecord

_ATTEMPTS = 5
_PAUSE_S = 1.0


@dataclass(slots=True)
class Importable:
    """What an import would send."""

    missing: set[str] = field(default_factory=set)
    """Id and time of each letter that it would send."""

    topics: Counter[str] = field(default_factory=Counter)
    """How many of them by dead-letter topic."""

    states: Counter[str] = field(default_factory=Counter)
    """How many of them by the state in which they were exported."""

    present: int = 0
    """Letters that are still in their topic, or were imported before."""

    expired: int = 0
    others: int = 0
    """Letters of other groups."""

    def document(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
        return {
            "letters": len(self.missing),
            "topics": dict(self.topics),
            "states": dict(self.states),
            "present": self.present,
            "expired": self.expired,
            "ofOthers": self.others,
        }


class Import:
    """One import of a file."""

    def __init__(self, settings: Settings, group: str, file: Path) -> None:
        """Ask which dead-letter topics there are.

        Raises:
            OSError: the file is a pipe, which cannot be read twice.
            RedriveError: the cluster shows none of them.
            TransportError: Kafka does not answer or denies access.
        """
        if file.exists() and not file.is_file():
            raise OSError("it is no file that can be read twice; write it to one first")
        self._settings, self._group, self._file = settings, group, file
        self._counts = ClusterAdmin(settings.kafka).partition_counts()
        self._partitions = letter_partitions(settings, self._counts)
        self._topics = {partition.topic for partition in self._partitions}
        self._offsets = PartitionOffsets(settings.kafka)
        self._ids = letter_topic_ids(settings, self._offsets.calls)
        self._read: dict[Partition, int] = {}
        self._missing: set[str] = set()

    def preview(self, progress: ReportProgress) -> Importable:
        """Return what :meth:`run` would send. Writes nothing.

        Raises:
            OSError: the file cannot be read.
            RedriveError: a line is no exported letter, or one of a topic that is no dead-letter topic here.
            TransportError: Kafka does not answer or denies access.
        """
        found, now_ms = Importable(), wall_clock_ms()
        eligible: dict[str, tuple[str, str]] = {}
        for letter, state in self._letters():
            if dict(letter.headers).get(ORIG_QUEUE) != self._group.encode():
                found.others += 1
            elif has_expired(read_expiration(letter.headers), now_ms):
                found.expired += 1
            else:
                eligible[_identity(letter.id, letter.timestamp_ms, letter.headers)] = _topic(letter.id), state
        self._missing = set(eligible)
        self._leave_out_present(progress)
        found.missing = set(self._missing)
        found.present = len(eligible) - len(found.missing)
        for each in found.missing:
            topic, state = eligible[each]
            found.topics[topic] += 1
            found.states[state] += 1
        return found

    def run(self, stop: Event, progress: ReportProgress) -> bool:
        """Send what :meth:`preview` has found missing; return whether nothing is missing any more.

        Raises:
            RedriveError: Kafka does not take a letter, another import for the group has begun, or a topic was deleted
                and created again since :meth:`preview` has read what it has. Import again.
            TransportError: Kafka does not answer or denies access.
        """
        failures, total = 0, len(self._missing)
        with closing(open_dlq_writer(self._settings, self._group, "import", one_attempt=True)) as writer:
            while self._missing and not stop.is_set():
                # The writer has ended the transaction of its predecessor, so all that it has committed is seen here.
                self._refuse_created_again("imported into it")
                self._leave_out_present(lambda *_: None)
                before = len(self._missing)
                try:
                    self._send(writer, stop, total, progress)
                except WriterChangedError:
                    continue
                except WriterFencedError:
                    raise RedriveError(
                        "another import for this group has begun; import again when it has ended"
                    ) from None
                except WriteAbortedError as error:
                    failures = 1 if len(self._missing) < before else failures + 1
                    if failures >= _ATTEMPTS:
                        raise RedriveError(f"the import stops: {error}; import again to go on") from error
                    stop.wait(_PAUSE_S)
                else:
                    break
        self._refuse_created_again("said about what it has now")
        return not self._missing

    def _refuse_created_again(self, undone: str) -> None:
        refuse_created_again(self._ids, letter_topic_ids(self._settings, self._offsets.calls), undone)

    def _send(self, writer: TransactionalWriter, stop: Event, total: int, progress: ReportProgress) -> None:
        chunk: dict[str, ProducerRecord] = {}
        size = 0
        for letter, _ in self._letters():
            identity = _identity(letter.id, letter.timestamp_ms, letter.headers)
            if identity not in self._missing or identity in chunk:
                continue
            record = self._record(letter, identity)
            record_bytes = len(letter.key or b"") + len(letter.value or b"")
            if len(chunk) >= CHUNK or (chunk and size + record_bytes > CHUNK_BYTES):
                self._write(writer, chunk, total, progress)
                chunk, size = {}, 0
                if stop.is_set():
                    return
            chunk[identity] = record
            size += record_bytes
        if chunk:
            self._write(writer, chunk, total, progress)

    def _write(
        self, writer: TransactionalWriter, chunk: dict[str, ProducerRecord], total: int, progress: ReportProgress
    ) -> None:
        records = list(chunk.values())
        try:
            writer.write(records, {})
        except WriteRefusedError as error:
            first = error.refused[0]
            name = list(chunk)[first.index].partition("/")[0]
            fix = "import again when it can" if first.cause.outside else f"remove {name} from the file"
            raise RedriveError(f"the import stops: {refusal(first, records)}; {fix}") from error
        self._missing.difference_update(chunk)
        progress(total - len(self._missing), total)

    def _record(self, letter: ExportedLetter, identity: str) -> ProducerRecord:
        topic, number, _ = parse_message_id(letter.id)
        headers = [pair for pair in letter.headers if pair[0] != IMPORTED_FROM]
        headers.append((IMPORTED_FROM, identity.encode()))
        return ProducerRecord(topic, number % self._counts[topic], letter.key, letter.value, headers)

    def _leave_out_present(self, progress: ReportProgress) -> None:
        """Read what the topics have, up to ends that include open transactions, and thus wait for these."""
        ends = self._offsets.high_watermarks(self._partitions)
        total = sum(ends.values())
        for number, message in enumerate(read_between(self._settings.kafka, self._settings.group, self._read, ends)):
            if number % 1000 == 0:
                progress(number, total)
            self._missing.discard(_identity_of(message))
        self._read = ends

    def _letters(self) -> Iterator[tuple[ExportedLetter, str]]:
        """Yield the letters of the file, each with the state in which it was exported."""
        with self._file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    letter = ExportedLetter.parse(line)
                except ExportedLetterError as error:
                    raise RedriveError(f"{self._file} line {number}: {error}") from None
                if _topic(letter.id) not in self._topics:
                    raise RedriveError(
                        f"{self._file} line {number}: {_topic(letter.id)} is no dead-letter topic of this configuration"
                    )
                yield letter, letter.state


def _topic(identity: str) -> str:
    return parse_message_id(identity)[0]


def _identity(name: str, timestamp_ms: int, headers: Headers) -> str:
    """Return id and time of a letter; of one that was imported, those under which it died."""
    value = dict(headers).get(IMPORTED_FROM)
    return f"{name}/{timestamp_ms}" if value is None else value.decode(errors="replace")


def _identity_of(message: Message) -> str:
    name = f"{message.topic()}-{message.partition()}@{message.offset()}"
    return _identity(name, message.timestamp()[1], readable_headers(message))
