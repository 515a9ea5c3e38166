"""Where a dead letter stands: whether a job has it, and what became of it."""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum
from typing import NamedTuple

from kafka_redelivery.topology.redrive.actions import ActionLog, End, Outcome, SliceProgress
from kafka_redelivery.topology.redrive.job import Job, JobLog
from kafka_redelivery.topology.redrive.offset_set import block_of
from kafka_redelivery.topology.redrive.topic_ids import TopicIds


class LetterState(StrEnum):
    """The state of a dead letter; ``DISCARDED`` also of one that a person has set aside."""

    WAITING = "waiting"
    """No job has it."""

    IN_JOB = "in_job"
    """A job has it and has not sent it yet."""

    SENT = "sent"
    """It was sent, and its outcome is not known yet. Or the records of its slice contradict each other, or one of them
    cannot be read."""

    RECOVERED = "recovered"
    DEAD_AGAIN = "dead_again"
    DISCARDED = "discarded"
    EXPIRED = "expired"
    PARKED = "parked"
    REFUSED = "refused"
    """It could not be sent."""

    GONE = "gone"
    """The job did not find it: it was deleted before it could be sent. A later job may have it if it is there."""


_OF_OUTCOME = {
    None: LetterState.SENT,
    Outcome.RECOVERED: LetterState.RECOVERED,
    Outcome.DEAD_AGAIN: LetterState.DEAD_AGAIN,
    Outcome.DISCARDED: LetterState.DISCARDED,
    Outcome.EXPIRED: LetterState.EXPIRED,
}

UNKNOWN_OUTCOME = frozenset({LetterState.SENT, LetterState.GONE})
"""States in which a letter may stay for ever: no one reports what became of it. A person may set it aside."""


class Standing(NamedTuple):
    """The state of a letter, by the last job that has or had it."""

    state: LetterState = LetterState.WAITING
    job: str | None = None
    sends: int = 0
    """How often it was sent."""

    reason: str = ""
    """Why it was refused."""

    def may_be_sent(self, *, again: bool) -> bool:
        """Whether a new job may have it. ``again``: also if it was sent before, set aside, or not found."""
        if again:
            return self.state is not LetterState.IN_JOB
        return self.state in {LetterState.WAITING, LetterState.REFUSED} and not self.sends


class Standings:
    """Answers where letters stand, from all jobs and actions.

    A job about a topic that was deleted and created again says nothing about the letters that are there now.
    """

    def __init__(self, jobs: JobLog, actions: ActionLog, now: TopicIds | None = None) -> None:
        """Take all jobs and actions, and the present ids of the dead-letter topics; without them no job is left out."""
        now = TopicIds() if now is None else now
        self._actions = actions
        self._adding_up: dict[tuple[str, int, int, int], bool] = {}
        self._owners: defaultdict[tuple[str, int, int], list[tuple[Job, int]]] = defaultdict(list)
        """The jobs with letters in a block of a partition, so that not all jobs are asked about each letter."""

        for job in sorted(jobs.jobs.values(), key=lambda each: each.position):
            for number, each in enumerate(job.spec.slices):
                if not job.spec.is_about(each.topic, now):
                    continue
                for block in job.owned[number].blocks():
                    self._owners[*each, block].append((job, number))

    def of(self, topic: str, partition: int, offset: int) -> Standing:
        """Return where a letter stands."""
        found = Standing()
        for job, number in self._owners.get((topic, partition, block_of(offset)), ()):
            if offset in job.owned[number]:
                found = self._after(found, job, number, offset)
        return found

    def history(self, topic: str, partition: int, offset: int) -> list[Standing]:
        """Return where a letter stood after each job that has or had it."""
        found = [Standing()]
        for job, number in self._owners.get((topic, partition, block_of(offset)), ()):
            if offset in job.owned[number]:
                found.append(self._after(found[-1], job, number, offset))
        return found[1:]

    def _after(self, before: Standing, job: Job, number: int, offset: int) -> Standing:
        progress = self._actions.slice(job.id, number)
        sends = before.sends
        if progress.in_doubt:
            return Standing(LetterState.SENT, job.id, sends + 1)
        if offset > progress.through:
            if progress.end is End.CANCELLED:
                return before
            return Standing(LetterState.IN_JOB, job.id, sends)
        if not self._adds_up(job, number, progress):
            return Standing(LetterState.SENT, job.id, sends + 1)
        if offset in progress.gone:
            return Standing(LetterState.GONE, job.id, sends)
        if offset in progress.parked:
            return Standing(LetterState.PARKED, job.id, sends)
        if offset in progress.set_aside:
            return Standing(LetterState.DISCARDED, job.id, sends)
        if offset in progress.refused:
            return Standing(LetterState.REFUSED, job.id, sends, progress.refused[offset])
        return Standing(_OF_OUTCOME[progress.outcomes.get(offset)], job.id, sends + 1)

    def _adds_up(self, job: Job, number: int, progress: SliceProgress) -> bool:
        key = job.id, number, progress.through, progress.sent
        if key not in self._adding_up:
            self._adding_up[key] = progress.adds_up(job.owned[number])
        return self._adding_up[key]
