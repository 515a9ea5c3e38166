"""Rules about the acknowledgement mode and what goes with it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from topology.acknowledgement import AcknowledgementMode
from topology.settings import Isolation, Settings
from topology.violations import Violation

_MODE = (("mode",),)


def acknowledgement_rules(settings: Settings) -> Iterator[Violation]:
    """What contradicts the mode."""
    section, mode = settings.acknowledgement, settings.mode
    if section.optimize_acknowledge and mode is not AcknowledgementMode.AUTO:
        yield Violation(
            ("acknowledgement", "optimizeAcknowledge"),
            f"is on, but acts in mode: auto alone, and the mode is {mode}",
            "set mode: auto, or remove it",
            _MODE,
        )
    if section.timeout is not None and section.timeout <= timedelta(0):
        problem = "is zero: every record would be redelivered before it could be acknowledged"
        yield Violation(("acknowledgement", "timeout"), problem, "write a longer one, or remove it to have none")
    if section.timeout is not None and not mode.by_handler:
        yield Violation(
            ("acknowledgement", "timeout"),
            f"is set, but in mode: {mode} a record is acknowledged when its handler returns",
            "set mode: client or individual, or use handler.deadline for the time in the handler",
            _MODE,
        )
    if mode.by_handler:
        yield from _by_handler(settings)


def _by_handler(settings: Settings) -> Iterator[Violation]:
    """What cannot be had where a record may stay unacknowledged after its handler returned."""
    handler = settings.handler
    if handler is None:
        return
    refused = (
        (
            not handler.non_blocking_redelivery,
            "nonBlockingRedelivery",
            "is false, but what the handler leaves unacknowledged cannot hold up what follows",
        ),
        (
            handler.persist_delivery_count_before_delivery,
            "persistDeliveryCountBeforeDelivery",
            "is on, but what the handler leaves unacknowledged cannot be told from what it died of",
        ),
        (
            handler.isolation is Isolation.PROCESS,
            "isolation",
            "is process, but a child can only answer for the record that it has",
        ),
    )
    for broken, name, problem in refused:
        if broken:
            mend = f"use mode: transacted or auto, or remove it: in mode {settings.mode} it cannot be had"
            yield Violation(("handler", name), problem, mend, _MODE)
