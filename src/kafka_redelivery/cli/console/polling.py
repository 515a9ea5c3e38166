"""Values that one background thread keeps current while a page is open, however many are."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from kafka_redelivery.consumers.clock import monotonic_s, wall_clock_ms

_log = logging.getLogger(__name__)

_Value = TypeVar("_Value")

LOOKED_AT_S: Final = 20.0
"""How long after the last look a value is kept current."""

_LONGEST_PAUSE_S: Final = 10.0
"""Between two tries while Kafka is away."""


class Problem(NamedTuple):
    """Why a value cannot be brought up to date."""

    since_ms: int
    text: str


class Polled(Generic[_Value]):
    """A value, and why it is not current, if it is not."""

    def __init__(
        self,
        name: str,
        produce: Callable[[], _Value],
        every_s: float,
        changed: Callable[[], None] = lambda: None,
        rest: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare; :meth:`start` starts the thread.

        Args:
            name: names the thread, and the value in a log.
            produce: returns the value; called by the thread alone.
            every_s: time between two calls while a page is open.
            changed: called by the thread after each of them.
            rest: releases what ``produce`` keeps from call to call; called by the thread when no page is open any more.
        """
        self.value: _Value | None = None
        self.at_ms = 0
        """When the value was produced (epoch ms)."""

        self.problem: Problem | None = None
        self._name, self._produce, self._every_s, self._changed = name, produce, every_s, changed
        self._rest = rest
        self._until_s = 0.0
        self._wake, self._stop = threading.Event(), threading.Event()
        self._served = threading.Condition()
        self._asked = self._answered = 0
        self._started = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Produce the value for the first time, and go on while a page is open; calling it once is enough."""
        self.look()
        with self._served:
            if not self._started:
                self._started = True
                self._thread.start()

    def stop(self) -> None:
        """Produce nothing any more; does not wait."""
        self._stop.set()
        self._wake.set()

    def wait(self, within_s: float) -> None:
        """Wait until the thread has ended after :meth:`stop`."""
        if self._started:
            self._thread.join(within_s)

    def look(self) -> None:
        """Note that a page is open. After a while without one the value is produced at once."""
        now_s = monotonic_s()
        asleep, self._until_s = self._until_s <= now_s, now_s + LOOKED_AT_S
        if asleep:
            self._wake.set()

    def produce_now(self, within_s: float) -> bool:
        """Produce the value again, from what is there now, and wait for it; return whether it is there in time."""
        self.look()
        with self._served:
            self._asked += 1
            mine = self._asked
            self._wake.set()
            self._served.wait_for(lambda: self._answered >= mine or self._stop.is_set(), within_s)
            return self._answered >= mine and self.problem is None

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            self._wake.clear()
            asked = self._asked
            failures = 0 if self._once() else failures + 1
            with self._served:
                self._answered = asked
                self._served.notify_all()
            if self._asked == asked:
                self._pause(min(_LONGEST_PAUSE_S, self._every_s * 2 ** min(failures, 5)))
        self._rest()

    def _pause(self, pause_s: float) -> None:
        if self._until_s > monotonic_s():
            self._wake.wait(pause_s)
        elif not self._wake.is_set():
            self._rest()
            self._wake.wait()

    def _once(self) -> bool:
        try:
            self.value = self._produce()
        except Exception as error:  # noqa: BLE001 - whatever it is, people read it on the page
            since_ms = wall_clock_ms() if self.problem is None else self.problem.since_ms
            if self.problem is None:
                _log.warning("%s: %s", self._name, error)
            self.problem = Problem(since_ms, str(error) or type(error).__name__)
        else:
            self.problem, self.at_ms = None, wall_clock_ms()
        try:
            self._changed()
        except Exception:  # noqa: BLE001 - a template may fail in any way, and the thread must go on
            _log.exception("%s: open pages are not brought up to date", self._name)
        return self.problem is None
