"""Asks a function of the user whether what was away is back, once a pause for a whole group."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from kafka_redelivery.consumers.clock import Clock, monotonic_s, wall_clock_ms
from kafka_redelivery.topology.wire.control import ControlRecord
from kafka_redelivery.topology.wire.outages import ProbeLease, probe_record

_log = logging.getLogger(__name__)

_SHORTEST_LEASE_MS: Final = 2_000
_SETTLED_S: Final = 1.0
"""How long a lease has to be the newest one: others may write theirs before they read it. The last one counts."""

_READ_BACK_S: Final = 3.0
"""How long to wait for the lease in the control topic. Without one that can be written each worker asks for itself."""

_HANGS_S: Final = 60.0
"""After so long a call of a probe tells nothing, and records are tried instead."""


class ProbeView(Protocol):
    """What the control topic says about leases."""

    @property
    def probes(self) -> Mapping[str, ProbeLease]:
        """The newest lease of each dependency."""
        ...

    @property
    def shared(self) -> bool:
        """Whether there is a control topic that can be read."""
        ...

    def publish(self, records: list[ControlRecord]) -> None:
        """Write records soon, in another thread."""
        ...


class Probe:
    """The probe of one dependency. The polling thread asks and takes the answer; a thread of its own calls it."""

    def __init__(
        self,
        name: str,
        function: Callable[[], object],
        instance: str,
        view: ProbeView,
        *,
        clock_s: Callable[[], float] = monotonic_s,
        clock_ms: Clock = wall_clock_ms,
    ) -> None:
        """Prepare.

        Args:
            name: the dependency.
            function: raises, or returns ``False``, while it is away.
            instance: the name of this worker.
            view: the control topic.
            clock_s: monotonic seconds.
            clock_ms: epoch ms.
        """
        self._name, self._function, self._instance, self._view = name, function, instance, view
        self._clock_s, self._clock_ms = clock_s, clock_ms
        self._answer: bool | None = None
        self._wanted = False
        """Whether the answer of the call that runs is wanted."""

        self._calls = False
        self._called_s = 0.0
        """When the last call began (monotonic)."""

        self._leased_s: float | None = None
        """When this worker has written a lease that it has not used yet (monotonic)."""

    @property
    def hangs(self) -> bool:
        """Whether a call does not return, so that there will be no other."""
        return self._calls and self._clock_s() - self._called_s > _HANGS_S

    def take_answer(self) -> bool | None:
        """Return the answer of a call that has ended since, or ``None``."""
        answer, self._answer = self._answer, None
        return answer

    def forget(self) -> None:
        """Forget the answer, also the one of a call that still runs: it belongs to an outage that is over."""
        self._wanted, self._answer, self._leased_s = False, None, None

    def ask(self, pause_s: float) -> None:
        """Get the lease and then the answer, a step each time. Nothing happens while another worker has the lease.

        Args:
            pause_s: how long no other worker of the group asks.
        """
        if self._calls or self._answer is not None:
            return
        if not self._view.shared:
            self._call()
            return
        now_ms, lease = self._clock_ms(), self._view.probes.get(self._name)
        age_s = None if self._leased_s is None else self._clock_s() - self._leased_s
        if lease is not None and now_ms < lease.until_ms:
            if lease.holder != self._instance:
                self._leased_s = None
            elif age_s is not None and age_s >= _SETTLED_S:
                self._call()
        elif age_s is not None and _READ_BACK_S < age_s < 2 * _READ_BACK_S:
            self._call()
        elif age_s is None or age_s > _READ_BACK_S:
            self._leased_s, lease_ms = self._clock_s(), max(_SHORTEST_LEASE_MS, round(pause_s * 1000))
            record = probe_record(self._name, ProbeLease(self._instance, now_ms + lease_ms), now_ms)
            self._view.publish([record])

    def _call(self) -> None:
        self._calls, self._wanted, self._called_s, self._leased_s = True, True, self._clock_s(), None
        # A daemon thread: a probe that never returns must not keep the process alive.
        threading.Thread(target=self._run, name=f"probe-{self._name}", daemon=True).start()

    def _run(self) -> None:
        try:
            answer = self._function() is not False
        except BaseException as error:  # noqa: BLE001 - whatever it raises, it is away
            _log.debug("the probe of %s says that it is away: %s", self._name, error)
            answer = False
        if self._wanted:
            self._answer = answer
        self._calls = False


def as_probe(function: Callable[[], Any]) -> Callable[[], object]:
    """Return a function of the user as one that can be called in a thread; an asynchronous one gets its own loop."""

    async def ended(answer: Awaitable[object]) -> object:
        return await answer

    def call() -> object:
        answer = function()
        return asyncio.run(ended(answer)) if inspect.isawaitable(answer) else answer

    return call
