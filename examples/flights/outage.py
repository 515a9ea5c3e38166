"""What ``--outage`` adds: a book of flights that the handler asks about each flight, and that goes away in mid-run."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from time import monotonic
from types import TracebackType
from typing import Final, Self

from examples.flights.wire import CONFIG
from kafka_redelivery.topology.backoff import Backoff
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.wire.headers import FAILURE_CAUSE, read_failure_cause
from kafka_redelivery.transport.protocols import Message

USUAL_S: Final = 60.0
SLOTS: Final = 4
_DEPENDENCY: Final = "book"
_EXCEPTION: Final = "BookAwayError"
"""What the handler raises while it is away."""

_BEGINS: Final = 3
"""It goes away when it was asked about one in this many flights."""

_BEFORE_S: Final = 3.0
"""The speed before the outage is that of so many seconds."""

_FULL: Final = 0.8
"""The part of that speed that counts as full again."""


class Book:
    """The service, on loopback and in this process. It counts its calls."""

    def __init__(self) -> None:
        self.away = False
        self.calls: list[float] = []
        """When it has answered (monotonic)."""

        self.refused: list[float] = []
        """When it was called while it was away (monotonic)."""

        self._server = _Server(("127.0.0.1", 0), _Answer)
        self._server.book = self

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, name="book", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def asked(self, path: str) -> bool:  # noqa: ARG002 - the benchmark looks at it
        """Count a call, and return whether it is answered."""
        there = not self.away
        (self.calls if there else self.refused).append(monotonic())
        return there

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._server.server_port}"

    @property
    def variables(self) -> Mapping[str, str]:
        """What a worker needs in its environment to ask it."""
        return {"FLIGHTS_BOOK": self.address, "REDELIVERY_HANDLER__SLOTS": str(SLOTS)}


class _Server(ThreadingHTTPServer):
    book: Book
    request_queue_size = 64


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections stay open
    server: _Server

    def do_GET(self) -> None:
        there = self.server.book.asked(self.path)
        self.send_response(HTTPStatus.OK if there else HTTPStatus.SERVICE_UNAVAILABLE)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What the outage has cost."""

    away_s: float
    calls: int
    """Calls of the book while it was away."""

    most_calls: int
    """How many there may be: one after each pause of each worker, and those in flight when it began."""

    dead: int
    """Dead letters because the book was away."""

    attempts: int
    """Redeliveries because the book was away."""

    full_s: float
    """Seconds from its return until it was called as often in a second as before; see :func:`full_speed_s`."""


class Outage:
    """The outage of a run, step by step: the book goes away, a worker is killed, one is added, the book comes back."""

    def __init__(
        self,
        seconds: float,
        flights: int,
        *,
        kill: Callable[[], None],
        add: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        """Prepare.

        Args:
            seconds: how long the book is away.
            flights: how many there are.
            kill: kills a worker, which is then started again.
            add: starts another worker.
            say: tells people.
        """
        self.book = Book()
        self._seconds, self._flights, self._say = seconds, flights, say
        self._began_s: float | None = None
        self._back_s = 0.0
        self._plan = deque([(0.0, self._leave), (seconds / 4, kill), (seconds / 2, add), (seconds, self._come_back)])

    def step(self) -> None:
        """Do what is due."""
        now_s = monotonic()
        if self._began_s is None and len(self.book.calls) * _BEGINS >= self._flights:
            self._began_s = now_s
        while self._began_s is not None and self._plan and now_s >= self._began_s + self._plan[0][0]:
            self._plan.popleft()[1]()

    def _leave(self) -> None:
        self._say(
            f"The book of flights is away for {self._seconds:g} s; meanwhile a worker is killed and one is added."
        )
        self.book.away = True

    def _come_back(self) -> None:
        self.book.away, self._back_s = False, monotonic()
        self._say(f"The book of flights is back. It was called {len(self.book.refused)} times while it was away.")

    def cost(self, copies: Iterable[Message]) -> Cost:
        """Return what it has cost.

        Args:
            copies: dead letters and records of tiers.
        """
        causes = [read_failure_cause(dict(message.headers() or ()).get(FAILURE_CAUSE)) for message in copies]
        ours = [cause for cause in causes if cause.exception == _EXCEPTION]
        dead = sum(bool(cause.reason) for cause in ours)
        full_s = full_speed_s(self.book.calls, self._began_s or 0.0, self._back_s)
        return Cost(
            self._seconds, len(self.book.refused), most_calls(self._seconds), dead, len(ours) - dead, round(full_s, 1)
        )


def most_calls(seconds: float) -> int:
    """Return how often three workers, one after the other killed and added, may call what is away for so long."""
    section = load_settings(CONFIG.read_text(encoding="utf-8"), name=str(CONFIG)).dependencies[_DEPENDENCY]
    backoff = Backoff(section.first_pause.total_seconds(), section.longest_pause.total_seconds()).failed(0.0)
    tries = 1
    while backoff.due_s < seconds:
        backoff = backoff.failed(backoff.due_s - 0.1 * backoff.pause_s)  # a pause may be shorter by a tenth
        tries += 1
    return 3 * (2 * SLOTS + tries)


def full_speed_s(calls: Sequence[float], began_s: float, back_s: float) -> float:
    """Return how long it took until as many calls were answered within a second as before the outage.

    If that never was so, because too few flights were left, it is the time until the second with the most calls.

    Args:
        calls: when calls were answered.
        began_s: when the outage began.
        back_s: when it ended.
    """
    before = bisect_left(calls, began_s) - bisect_left(calls, max(began_s - _BEFORE_S, calls[0] if calls else 0.0))
    wanted, after = _FULL * before / _BEFORE_S, calls[bisect_left(calls, back_s) :]
    fastest_s, most = 0.0, 0
    for number, at_s in enumerate(after, 1):
        within = number - bisect_left(after, at_s - 1.0, hi=number)
        if within > most:
            fastest_s, most = at_s - back_s, within
        if within >= wanted:
            break
    return fastest_s
