"""Rules about the acknowledgement mode and the settings that depend on it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from kafka_redelivery.topology.config.settings import Isolation, Settings
from kafka_redelivery.topology.faults import Violation
from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode


def acknowledgement_rules(settings: Settings) -> Iterator[Violation]:
    """Yield the settings that contradict the mode."""
    section, mode = settings.acknowledgement, settings.mode
    if section.optimize_acknowledge and mode is not AcknowledgementMode.AUTO:
        yield Violation(
            ("acknowledgement", "optimizeAcknowledge"),
            f"is true, but has an effect only in mode: auto, and the mode is {mode}",
            "set mode: auto, or remove it",
        )
    if section.timeout is not None and section.timeout <= timedelta(0):
        problem = "is zero: every record would be redelivered before it could be acknowledged"
        yield Violation(("acknowledgement", "timeout"), problem, "write a longer time, or remove it for no limit")
    if section.timeout is not None and not mode.by_handler:
        yield Violation(
            ("acknowledgement", "timeout"),
            f"is set, but in mode: {mode} a record is acknowledged when its handler returns",
            "set mode: client or individual, or limit the handler's time with handler.deadline",
        )
    if mode.by_handler:
        yield from _handler_rules(settings)


def _handler_rules(settings: Settings) -> Iterator[Violation]:
    """Yield the handler settings that need a record to be acknowledged when its handler returns."""
    handler = settings.handler
    if handler is None:
        return
    refused = (
        (
            not handler.non_blocking_redelivery,
            "nonBlockingRedelivery",
            "is false, but later records cannot wait for records that the handler leaves unacknowledged",
        ),
        (
            handler.persist_delivery_count_before_delivery,
            "persistDeliveryCountBeforeDelivery",
            "is true, but a record that the handler leaves unacknowledged looks the same as one that killed the worker",
        ),
        (
            handler.isolation is Isolation.PROCESS,
            "isolation",
            "is process, but a child process can only acknowledge the record that it handles",
        ),
    )
    for broken, name, problem in refused:
        if broken:
            fix = f"set mode: transacted or auto, or remove it: mode: {settings.mode} does not support it"
            yield Violation(("handler", name), problem, fix)
