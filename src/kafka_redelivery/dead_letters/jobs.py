"""What a person does with dead letters, whatever they look at it with: makes jobs, runs and ends them, purges.

Those who call this show previews and ask questions. What is done is decided here, by what the topics say then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event
from typing import Any, NamedTuple, Self

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.audit import write_note
from kafka_redelivery.dead_letters.creation import Preview, create, preview
from kafka_redelivery.dead_letters.documents import job_document, preview_document, removable_letters
from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.letter_places import refuse_created_again
from kafka_redelivery.dead_letters.purge import Removable, removable, remove, topics_of
from kafka_redelivery.dead_letters.reading import ReportProgress
from kafka_redelivery.dead_letters.run import JobRun, cancel
from kafka_redelivery.dead_letters.source import LetterSource
from kafka_redelivery.dead_letters.standing import UNKNOWN_OUTCOME
from kafka_redelivery.topology.redrive.job import JobOptions
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.transport.admin.cluster_admin import ClusterAdmin
from kafka_redelivery.transport.protocols import Partition


class Agreed(NamedTuple):
    """What a person has been shown, and has agreed to."""

    document: Mapping[str, Any]
    """The preview, see :func:`preview_document`; empty if there was none."""

    ends: Mapping[Partition, int]
    """The ends of the partitions before it. Letters below these are meant."""

    topics: TopicIds
    """The ids of the dead-letter topics before it. Of another topic nothing is sent."""


@dataclass(frozen=True, slots=True)
class OpenJob:
    """A job, with what the topics say of it. Not thread-safe."""

    settings: LetterSource
    ledger: Ledger
    id: str

    @classmethod
    def named(cls, settings: LetterSource, name: str, group: str | None = None) -> Self:
        """Return the job whose name begins so, of a group, if it is not that of the settings.

        Raises:
            RedriveError: there is none, or more than one.
            TransportError: Kafka does not answer or denies access.
        """
        ledger = Ledger(settings, group)
        return cls(settings, ledger, ledger.job(name).id)

    @property
    def discards(self) -> bool:
        """Whether its letters are not sent but set aside."""
        return self.ledger.job(self.id).spec.options.discard

    def document(self) -> dict[str, Any]:
        """Return how far it is, as plain data for JSON."""
        return job_document(self.ledger, self.ledger.job(self.id))

    def run(self, stop: Event, progress: ReportProgress) -> bool:
        """Run it, or go on with it, or take it over, until its end or ``stop``; return whether it has ended.

        Raises:
            RedriveError, TransportError: as :meth:`JobRun.run`.
        """
        return JobRun(self.settings, self.ledger, self.id, stop, progress).run()

    def cancel(self, by: str | None = None) -> None:
        """Cancel it for good, wherever it runs; ``by``: who does, if that is not the user of this process.

        Raises:
            RedriveError, TransportError: as :meth:`JobRun.run`. Cancel it again.
        """
        cancel(self.settings, self.ledger, self.id, by=by)


def create_job(
    settings: LetterSource,
    index: Index,
    selection: Selection,
    options: JobOptions,
    ask: Callable[[Preview], bool],
    agreed: Agreed | None = None,
    by: str | None = None,
) -> OpenJob | None:
    """Create a job of the letters that are there now.

    Args:
        settings: the configuration.
        index: can select the letters, and is up to date.
        selection: the letters.
        options: how they are sent, or that they are set aside.
        ask: shows what the job would do, and returns whether to create it.
        agreed: what was agreed to before; it is asked only if the job would do something else.
        by: the author, if that is not the user of this process.

    Returns:
        ``None`` if the answer was no.

    Raises:
        RedriveError: a target is refused or does not exist, a topic was created again, or nothing is left to send.
        TransportError: Kafka does not answer or denies access.
    """
    if agreed is not None:
        refuse_created_again(agreed.topics, index.topics, "set aside" if options.discard else "sent")
    topics, ends = ClusterAdmin(settings.kafka).partition_counts(), None if agreed is None else agreed.ends
    chosen = preview(settings, index, selection, options, topics, wall_clock_ms(), ends)
    shown = agreed is not None and agreed.document == preview_document(chosen)
    if not shown and not ask(chosen):
        return None
    if not chosen.total:
        raise RedriveError("no letter is left to send: others have sent or deleted them meanwhile")
    ledger = Ledger(settings, options.group)
    return OpenJob(settings, ledger, create(settings, ledger, index, chosen, by=by).id)


def discarding(group: str, selection: Selection) -> JobOptions:
    """Return how a job sets letters aside: also those without an outcome, if the selection names their state."""
    return JobOptions(group=group, discard=True, again=not UNKNOWN_OUTCOME.isdisjoint(selection.states))


class Purge(NamedTuple):
    """What can be removed from the start of each partition."""

    settings: LetterSource
    chosen: Mapping[Partition, Removable]
    topics: TopicIds
    """The ids of the topics before they were read."""

    @classmethod
    def of(cls, settings: LetterSource, index: Index, shown: Mapping[Partition, Removable] | None = None) -> Self:
        """Return what an index that is up to date says; with ``shown`` nothing but what was shown.

        Raises:
            RedriveError: a topic was created again since.
        """
        refuse_created_again(topics_of(shown or {}), index.topics, "removed")
        ends = None if shown is None else {partition: each.before for partition, each in shown.items()}
        chosen = removable(index, ends)
        index.refuse_changes(index.snapshot)
        return cls(settings, chosen, index.topics)

    def remove(self, by: str | None = None) -> dict[Partition, str]:
        """Remove it for good; return the partitions of which nothing is removed, each with the reason.

        ``by``: who does; if given, it is written to the audit trail first.

        Raises:
            RedriveError, TransportError: it cannot be written there, and nothing is removed.
        """
        if by is not None:
            about = f"{removable_letters(self.chosen)} letters from the start of each partition"
            topics = self.topics.only(topics_of(self.chosen).ids)
            write_note(self.settings, by, "purge", about, topics=topics)
        return remove(self.settings, self.chosen)
