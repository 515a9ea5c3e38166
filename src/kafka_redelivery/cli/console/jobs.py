"""The jobs of the group and what the console does in threads of its own: it makes jobs, runs them, and purges.

A job is in Kafka. When this process ends, the job waits and any process can go on with it.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from kafka_redelivery.cli.console.access import User
from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.audit import Entry, trail
from kafka_redelivery.dead_letters.creation import Preview, author
from kafka_redelivery.dead_letters.documents import job_document
from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.dead_letters.jobs import Agreed, OpenJob, create_job
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.reading import ReportProgress, no_progress
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.redrive.job import Job, JobOptions
from kafka_redelivery.transport.errors import TransportError

_log = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")

_RATE_MS: Final = 10_000
_LOCK_S: Final = 10.0
_KEPT: Final = 200
_ANSWER_S: Final = 900.0
"""How long a task waits for an answer."""

_STOP_S: Final = 30.0


class JobsNotReadError(TransportError):
    """A job is not known, and the topics of the jobs have not been read to their end since."""


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
        """How long it goes on at this rate; ``None`` if that is not known."""
        left = self.document["letters"] - self.dealt
        rate = self.rate
        return left / rate if rate > 0 and left > 0 else None


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


class Phase(StrEnum):
    """What a task is doing."""

    READING = "reading"
    ASKING = "asking"
    """The topics say something else than the preview, so the user is asked again."""

    RUNNING = "running"
    ENDED = "ended"
    WAITING = "waiting"
    """The console stops; the job can be resumed."""

    FAILED = "failed"


@dataclass(slots=True)
class Task:
    """A job that the console makes or runs."""

    id: str
    user: User
    what: str
    """``redrive``, ``discard``, ``edit``, ``resume`` or ``purge``."""

    phase: Phase = Phase.READING
    done: int = 0
    total: int = 0
    """Letters that were read, and that are to be read."""

    job: str = ""
    result: str = ""
    """What was done, of a task without a job."""

    problem: str = ""
    chosen: Preview | None = None
    """What the topics say, while the user is asked."""

    answered: threading.Event = field(default_factory=threading.Event)
    agreed: bool = False
    settled: threading.Event = field(default_factory=threading.Event)
    """Set when there is a job, a question or a problem."""

    @property
    def address(self) -> str:
        """The page that shows it: that of its job, if it has one."""
        return f"/jobs/{self.job}" if self.job else f"/tasks/{self.id}"

    @property
    def active(self) -> bool:
        """Whether it is under way."""
        return self.phase in {Phase.READING, Phase.ASKING, Phase.RUNNING}


class Tasks:
    """The tasks of this process."""

    def __init__(self, settings: Settings, base: Path, folder: Path | None, changed: Callable[[], None]) -> None:
        """Prepare.

        Args:
            settings: the configuration.
            base: its folder.
            folder: that of all indexes; ``None`` = the default.
            changed: called when a task changes.
        """
        self._settings, self._base, self._folder, self._changed = settings, base, folder, changed
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.tasks: dict[str, Task] = {}
        self._threads: list[threading.Thread] = []

    def __getitem__(self, name: str) -> Task:
        return self.tasks[name]

    @property
    def running(self) -> frozenset[str]:
        """The jobs that run in this process."""
        return frozenset(each.job for each in list(self.tasks.values()) if each.phase is Phase.RUNNING)

    def problem_of(self, job: str) -> str:
        """Return why a job stopped here, if it did."""
        found = [each for each in list(self.tasks.values()) if each.job == job]
        return found[-1].problem if found else ""

    def stop(self) -> None:
        """Stop all jobs after their chunk, and wait for it."""
        self._stop.set()
        for each in list(self.tasks.values()):
            each.answered.set()
        for thread in self._threads:
            thread.join(_STOP_S)

    def send(self, user: User, selection: Selection, options: JobOptions, agreed: Agreed) -> Task:
        """Create a job of what a user has agreed to, and run it. If the topics say something else, the task asks."""

        def make(task: Task) -> OpenJob | None:
            with self.index(selection, self.progress(task)) as index:
                ask = partial(self._agreed, task)
                return create_job(self._settings, index, selection, options, ask, agreed, signature(user))

        return self.begin(user, "discard" if options.discard else "redrive", make)

    def begin(self, user: User, what: str, make: Callable[[Task], OpenJob | None]) -> Task:
        """Call ``make`` in a thread, and run the job that it returns, if it does."""
        task = Task(secrets.token_hex(8), user, what)
        with self._lock:
            self.tasks[task.id] = task
            for old in [each.id for each in self.tasks.values() if not each.active][: len(self.tasks) - _KEPT]:
                del self.tasks[old]
            self._threads = [each for each in self._threads if each.is_alive()]
            thread = threading.Thread(target=self._run, args=(task, make), name=f"task-{task.id}", daemon=True)
            self._threads.append(thread)
        thread.start()
        return task

    def _run(self, task: Task, make: Callable[[Task], OpenJob | None]) -> None:
        try:
            job = make(task)
            if job is None:
                task.phase = Phase.ENDED
                return
            task.job, task.phase = job.id, Phase.RUNNING
            task.settled.set()
            self._changed()
            ended = job.run(self._stop, lambda *_: self._changed())
            task.phase = Phase.ENDED if ended else Phase.WAITING
        except Exception as error:  # noqa: BLE001 - whatever it is, the user reads it on the page
            _log.warning("%s by %s: %s", task.what, task.user.name, error)
            task.phase, task.problem = Phase.FAILED, str(error) or type(error).__name__
        finally:
            task.settled.set()
            self._changed()

    @contextmanager
    def index(self, selection: Selection, progress: ReportProgress = no_progress) -> Iterator[Index]:
        """Open an index that can select letters, bring it up to date, and close it on exit."""
        index = Index.open_for(self._settings, self._settings.group, selection, path=self._folder, base=self._base)
        with closing(index):
            index.refresh(progress)
            yield index

    def progress(self, task: Task) -> Callable[[int, int], None]:
        """Return what notes how many letters a task has read, and ends it when the console stops."""

        def note(done: int, total: int) -> None:
            task.done, task.total = done, total
            self._changed()
            if self._stop.is_set():
                raise RedriveError("the console was stopped before that was done, so nothing is changed")

        return note

    def _agreed(self, task: Task, chosen: Preview) -> bool:
        task.chosen, task.phase = chosen, Phase.ASKING
        task.settled.set()
        self._changed()
        task.answered.wait(_ANSWER_S)
        task.chosen = None
        return task.agreed and not self._stop.is_set()


def signature(user: User) -> str:
    """Return how a user of the console is named in the list of the jobs and in the audit trail."""
    return f"{user.name} (console, {author()})"
