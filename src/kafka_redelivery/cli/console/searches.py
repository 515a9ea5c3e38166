"""Searches for records. Each runs in a thread of its own, and pages ask how far it is."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from starlette.exceptions import HTTPException

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.errors import ConsumersError
from kafka_redelivery.consumers.operations.find import Search, Wanted, find
from kafka_redelivery.topology.config.settings import Settings

_AT_ONCE: Final = 2
"""Searches that read at the same time."""

_UNENDED: Final = 20
"""Searches that read, or wait until they may."""

_KEPT: Final = 50
"""Searches of which the result is kept."""

_FRESH_MS: Final = 5_000
"""How long a result answers the same question of others."""


@dataclass(slots=True)
class Searching:
    """A search."""

    at_ms: int
    done: int = 0
    total: int = 0
    """Records that were read, and that are to be read, of one kind of topic."""

    found: Search | None = None
    problem: str = ""
    ended: threading.Event = field(default_factory=threading.Event)


class Searches:
    """The searches of this process."""

    def __init__(self, settings: Settings, stop: threading.Event) -> None:
        """Prepare; ``stop`` ends them."""
        self._settings, self._stop = settings, stop
        self._turns = threading.Semaphore(_AT_ONCE)
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[Wanted, int, bool], Searching] = OrderedDict()

    def begin(self, wanted: Wanted, limit: int, *, dead_letters: bool) -> Searching:
        """Begin a search as :func:`find`, or return one that is under way or has just ended.

        Raises:
            HTTPException: too many others have not ended.
        """
        asked = wanted, limit, dead_letters
        with self._lock:
            known = self._known.get(asked)
            if known is not None and (not known.ended.is_set() or known.at_ms >= wall_clock_ms() - _FRESH_MS):
                return known
            ended = [each for each, search in self._known.items() if search.ended.is_set()]
            if len(self._known) - len(ended) >= _UNENDED:
                problem = f"{_UNENDED} other searches have not ended; load the page again in a minute"
                raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, problem)
            for each in ended[: max(0, len(self._known) - _KEPT)]:
                del self._known[each]
            mine = self._known[asked] = Searching(wall_clock_ms())
            self._known.move_to_end(asked)
        threading.Thread(target=self._run, args=(mine, *asked), name="search", daemon=True).start()
        return mine

    def _run(self, mine: Searching, wanted: Wanted, limit: int, dead_letters: bool) -> None:
        def note(done: int, total: int) -> None:
            mine.done, mine.total = done, total
            if self._stop.is_set():
                raise ConsumersError("the console stops")

        try:
            with self._turns:
                mine.found = find(self._settings, wanted, limit, note, dead_letters=dead_letters)
        except Exception as error:  # noqa: BLE001 - whatever it is, the user reads it on the page
            mine.problem = str(error) or type(error).__name__
        finally:
            mine.at_ms = wall_clock_ms()
            mine.ended.set()
