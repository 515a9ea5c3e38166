"""Watches whether a scheduler of the group runs. Without one, failed records wait and nothing else shows it."""

from __future__ import annotations

import logging
import threading
from contextlib import AbstractContextManager, nullcontext

from kafka_redelivery.consumers.process.background import background_thread
from kafka_redelivery.consumers.telemetry.health import Health
from kafka_redelivery.topology.cluster.plan import needs_scheduler, scheduler_group
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.transport.admin.group_members import GroupMembers
from kafka_redelivery.transport.errors import TransportError

_log = logging.getLogger(__name__)

_FIRST_S = 10.0
"""Time until the first look, in which a scheduler that is started with this process joins its group."""

_INTERVAL_S = 60.0

_AGAIN_S = 20.0
"""Time until the look that confirms. While the coordinator of the group moves, no broker lists the group: by default
for nine seconds after a broker has died, and until the next one has loaded the group."""


class SchedulerWatch:
    """Logs each change, and notes in the health that no scheduler runs. Used by one thread."""

    def __init__(self, settings: Settings, health: Health) -> None:
        """Watch nothing yet."""
        self._kafka = settings.kafka
        self._group = scheduler_group(settings.group)
        self._health = health
        self._missing = False

    def run(self, ended: threading.Event, first_s: float = _FIRST_S, interval_s: float = _INTERVAL_S) -> None:
        """Look at each interval until the event is set."""
        members = GroupMembers(self._kafka)
        wait_s, suspected = first_s, False
        while not ended.wait(wait_s):
            runs = self._runs(members)
            suspected = runs is False and not (suspected or self._missing)
            if suspected:
                wait_s = min(_AGAIN_S, interval_s)
            else:
                self._note(runs)
                wait_s = interval_s

    def _runs(self, members: GroupMembers) -> bool | None:
        try:
            return members.any(self._group)
        except TransportError as error:
            _log.debug("it is unknown whether a scheduler runs: %s", error)
            return None

    def _note(self, runs: bool | None) -> None:  # noqa: FBT001 - the answer itself
        text = (
            f"no scheduler runs: group {self._group} has no members; failed records wait in the retry topics until one "
            "does; run: redelivery scheduler"
        )
        self._health.note("scheduler", text if runs is False else "")
        if runs is False and not self._missing:
            _log.warning(text)
        elif runs and self._missing:
            _log.info("a scheduler runs: group %s has members", self._group)
        if runs is not None:
            self._missing = not runs


def scheduler_watch(settings: Settings, health: Health) -> AbstractContextManager[None]:
    """Watch in a thread while the block runs, if the group needs a scheduler."""
    if not needs_scheduler(settings):
        return nullcontext()
    watch = SchedulerWatch(settings, health)
    return background_thread(
        "scheduler-watch", watch.run, "it is not watched whether a scheduler runs", restart_s=_INTERVAL_S
    )
