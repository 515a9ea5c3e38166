"""Which letters a selection means and where they stand, one letter at a time: what the index is compared with."""

from collections import defaultdict
from fnmatch import fnmatchcase

from kafka_redelivery.dead_letters.letter import Letter, LetterState, Selection, Standing
from kafka_redelivery.topology.redrive.actions import ActionLog, End, Outcome, SliceProgress
from kafka_redelivery.topology.redrive.job import Job, JobLog
from kafka_redelivery.topology.redrive.topic_ids import TopicIds

_OF_OUTCOME = {
    None: LetterState.SENT,
    Outcome.RECOVERED: LetterState.RECOVERED,
    Outcome.DEAD_AGAIN: LetterState.DEAD_AGAIN,
    Outcome.DISCARDED: LetterState.DISCARDED,
    Outcome.EXPIRED: LetterState.EXPIRED,
}


def matches(selection: Selection, letter: Letter, standing: Standing) -> bool:
    """Whether a letter meets everything but ``where``."""
    return (
        (not selection.states or standing.state in selection.states)
        and (selection.since_ms is None or letter.died_ms >= selection.since_ms)
        and (selection.until_ms is None or letter.died_ms < selection.until_ms)
        and _any(selection.origins, letter.origin)
        and _any(selection.reasons, letter.reason)
        and _any(selection.exceptions, letter.exception)
        and (not selection.keys or (letter.key is not None and _text(letter.key) in selection.keys))
        and all(name in letter.headers and _text(letter.headers[name]) == value for name, value in selection.headers)
        and (not selection.fingerprints or letter.fingerprint in selection.fingerprints)
        and (not selection.ids or letter.id in selection.ids or letter.source_id in selection.ids)
    )


def _any(patterns: tuple[str, ...], text: str) -> bool:
    return not patterns or any(fnmatchcase(text, pattern) for pattern in patterns)


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")


def _block(offset: int) -> int:
    return offset >> 10


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
                for block in {_block(each) for each in job.owned[number]}:
                    self._owners[*each, block].append((job, number))

    def of(self, topic: str, partition: int, offset: int) -> Standing:
        """Return where a letter stands."""
        found = Standing()
        for job, number in self._owners.get((topic, partition, _block(offset)), ()):
            if offset in job.owned[number]:
                found = self._after(found, job, number, offset)
        return found

    def history(self, topic: str, partition: int, offset: int) -> list[Standing]:
        """Return where a letter stood after each job that has or had it."""
        found = [Standing()]
        for job, number in self._owners.get((topic, partition, _block(offset)), ()):
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
