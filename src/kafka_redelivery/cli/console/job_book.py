"""The jobs of a group, how far each is and how fast it goes, and the audit trail: read once for all who look."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.audit import Entry, trail
from kafka_redelivery.dead_letters.jobs import job_document
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.redrive.job import Job

_Answer = TypeVar("_Answer")

_RATE_MS: Final = 10_000
_LOCK_S: Final = 10.0


class JobState(NamedTuple):
    """A job, as pages show it."""

    document: Mapping[str, Any]
    """As `redelivery dlq jobs --json` prints it."""

    dealt: int
    """Letters that were sent, or dealt with otherwise."""

    rate: float
    """Letters in a second, of the last seconds."""

    @property
    def active(self) -> bool:
        """Whether it has not ended."""
        return self.document["state"] in {"unfinished", "cancelling", "unreadable"}

    @property
    def left_s(self) -> float | None:
        """How long it goes on at this rate; ``None`` if that is not known, or it does not go on."""
        rate = self.rate
        return self.left / rate if self.goes_on and rate > 0 and self.left > 0 else None

    @property
    def left(self) -> int:
        """Letters that it has not dealt with: if it was cancelled, it never does, and other jobs may."""
        return int(self.document["letters"]) - self.dealt

    @property
    def goes_on(self) -> bool:
        """Whether it may still send letters."""
        return self.active and self.document["state"] != "cancelling"


class Jobs(NamedTuple):
    """What the topics of the jobs and the actions say."""

    jobs: Mapping[str, JobState]
    """By name, the newest first."""

    trail: list[Entry]
    unreadable: int
    """Records that cannot be read."""

    @property
    def active(self) -> list[JobState]:
        """The jobs that have not ended."""
        return [each for each in self.jobs.values() if each.active]


@dataclass(slots=True)
class JobBook:
    """Reads what was added."""

    settings: Settings
    lock: threading.Lock = field(default_factory=threading.Lock)
    ledger: Ledger | None = None
    _documents: dict[str, tuple[object, dict[str, Any], int]] = field(default_factory=dict)
    _looks: dict[str, deque[tuple[int, int]]] = field(default_factory=dict)

    def look(self) -> Jobs:
        """Return the jobs as they are now.

        Raises:
            RedriveError: their topics do not exist.
            TransportError: Kafka does not answer, or denies it.
        """
        with self.lock:
            if self.ledger is None:
                self.ledger = Ledger(self.settings)
            else:
                self.ledger.refresh()
            jobs = sorted(self.ledger.jobs.jobs.values(), key=lambda each: -each.spec.at_ms)
            states = {job.id: self._state(self.ledger, job) for job in jobs}
            return Jobs(states, trail(self.ledger.jobs, self.ledger.topics), self.ledger.left_out.count)

    def ask(self, question: Callable[[Ledger], _Answer]) -> _Answer:
        """Return what the ledger says. The question must not ask Kafka: meanwhile the jobs are not read.

        Raises:
            RedriveError: the ledger is not there yet, or is being read for long.
        """
        if not self.lock.acquire(timeout=_LOCK_S):
            raise RedriveError("the topics of the jobs are being read; load the page again")
        try:
            if self.ledger is None:
                raise RedriveError("the topics of the jobs have not been read yet; load the page again")
            return question(self.ledger)
        finally:
            self.lock.release()

    def _state(self, ledger: Ledger, job: Job) -> JobState:
        slices = [ledger.actions.slice(job.id, number) for number in range(len(job.owned))]
        progress = [(each.through, each.dealt, each.end, each.in_doubt, len(each.outcomes)) for each in slices]
        sign = (progress, job.cancelled_ms, job.problem, ledger.topics)
        known = self._documents.get(job.id)
        if known is None or known[0] != sign:
            known = sign, job_document(ledger, job), sum(each.dealt for each in slices)
            self._documents[job.id] = known
        _, document, dealt = known
        return JobState(document, dealt, self._rate(job.id, dealt))

    def _rate(self, job: str, dealt: int) -> float:
        now_ms = wall_clock_ms()
        looks = self._looks.setdefault(job, deque(maxlen=30))
        looks.append((now_ms, dealt))
        while len(looks) > 2 and looks[1][0] < now_ms - _RATE_MS:  # noqa: PLR2004 - two make a rate
            looks.popleft()
        at_ms, before = looks[0]
        return (dealt - before) * 1000 / max(1, now_ms - at_ms)
