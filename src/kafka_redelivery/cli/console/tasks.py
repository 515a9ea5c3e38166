"""What the console does in threads of its own: it makes jobs, runs them, and purges.

A job is in Kafka. When this process ends, the job waits and any process can go on with it.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

from kafka_redelivery.cli.console.access import User
from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.creation import Agreed, Preview, create_job
from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.dead_letters.jobs import OpenJob
from kafka_redelivery.dead_letters.ledger import author
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.reading import ReportProgress, no_progress
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.redrive.job import JobOptions

_log = logging.getLogger(__name__)

_KEPT: Final = 200
_ANSWER_S: Final = 900.0
"""How long a task waits for an answer."""

_STOP_S: Final = 30.0


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
    """``redrive``, ``discard``, ``edit``, ``resume``, ``purge``, or what is done with waiting records."""

    phase: Phase = Phase.READING
    done: int = 0
    total: int = 0
    """Letters or records that were read, or acted on, and all of them."""

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

    def send(
        self,
        user: User,
        selection: Selection,
        options: JobOptions,
        agreed: Agreed,
        note: str = "",
        *,
        skip_refused: bool = False,
    ) -> Task:
        """Create a job of what a user has agreed to, and run it. If the topics say something else, the task asks."""

        def make(task: Task) -> OpenJob | None:
            with self.index(selection, self.progress(task)) as index:
                ask = partial(self._agreed, task)
                return create_job(
                    self._settings,
                    index,
                    selection,
                    options,
                    ask,
                    agreed,
                    signature(user),
                    note,
                    skip_refused=skip_refused,
                )

        return self.begin(user, "discard" if options.discard else "redrive", make)

    def begin(self, user: User, what: str, make: Callable[[Task], OpenJob | None]) -> Task:
        """Call ``make`` in a thread, and run the job that it returns, if it does."""
        task = Task(secrets.token_hex(8), user, what)
        with self._lock:
            self.tasks[task.id] = task
            for old in [each.id for each in self.tasks.values() if not each.active][: max(0, len(self.tasks) - _KEPT)]:
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

    def index(self, selection: Selection, progress: ReportProgress = no_progress) -> AbstractContextManager[Index]:
        """Open an index that can select letters, bring it up to date, and close it on exit."""
        return Index.refreshed(
            self._settings, self._settings.group, selection, path=self._folder, base=self._base, progress=progress
        )

    def progress(self, task: Task, then: str = "nothing is changed") -> Callable[[int, int], None]:
        """Return what notes how far a task is, and ends it when the console stops; ``then``: what follows."""

        def note(done: int, total: int) -> None:
            task.done, task.total = done, total
            self._changed()
            if self._stop.is_set():
                raise RedriveError(f"the console was stopped before that was done; {then}")

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
