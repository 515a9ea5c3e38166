"""All rules, and those about the handler and the limits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from kafka_redelivery.topology.config.rules.acknowledgement import acknowledgement_rules
from kafka_redelivery.topology.config.rules.clients import client_rules, timing_rules
from kafka_redelivery.topology.config.rules.dialects import dialect_rules, redelivery_rules, slow_patterns
from kafka_redelivery.topology.config.rules.names import name_rules
from kafka_redelivery.topology.config.rules.serdes import serde_rules
from kafka_redelivery.topology.config.settings import Ordering, Settings
from kafka_redelivery.topology.faults import Violation
from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode


def rule_violations(settings: Settings) -> Iterator[Violation]:
    """Yield every violation of a rule.

    Names are checked only if the maps are right and their patterns are fast, because names are derived from the maps.
    """
    yield from client_rules(settings)
    for path, entry in settings.policy_sections():
        yield from redelivery_rules((*path, "redeliveryPolicy"), entry.redelivery_policy)
    in_maps = list(dialect_rules(settings)) or list(slow_patterns(settings))
    yield from in_maps
    if not in_maps:
        yield from name_rules(settings)
    yield from serde_rules(settings)
    yield from _handler_rules(settings)
    yield from _limit_rules(settings)
    yield from acknowledgement_rules(settings)
    yield from timing_rules(settings)


def _handler_rules(settings: Settings) -> Iterator[Violation]:
    handler = settings.handler
    if handler is None:
        return
    if handler.deadline is not None and handler.deadline <= timedelta(0):
        problem = "is zero: every record would fail before its handler starts"
        yield Violation(("handler", "deadline"), problem, "write a longer time, or remove it for no limit")
    if handler.slots > settings.limits.buffer_records:
        yield Violation(
            ("handler", "slots"),
            f"is {handler.slots}, more than the {settings.limits.buffer_records} records of limits.bufferRecords",
            "lower it, or raise limits.bufferRecords",
        )
    if not handler.non_blocking_redelivery and handler.ordering is Ordering.UNORDERED:
        yield Violation(
            ("handler", "nonBlockingRedelivery"),
            "is false, which keeps an order, but handler.ordering is unordered",
            "set handler.ordering to partition or key, or remove this",
        )


def _limit_rules(settings: Settings) -> Iterator[Violation]:
    limits = settings.limits
    if "batch" in limits.model_fields_set and limits.buffer_records < limits.batch:
        yield Violation(
            ("limits", "bufferRecords"),
            f"is {limits.buffer_records}, less than limits.batch ({limits.batch}): a batch could never be full",
            "raise it to limits.batch or more, or lower limits.batch",
        )
    if settings.journal and settings.mode is not AcknowledgementMode.TRANSACTED:
        problem = f"is true, but mode: {settings.mode} has no transaction to write the journal in"
        yield Violation(("journal",), problem, "set mode: transacted, or set this to false")
