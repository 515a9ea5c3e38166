"""All rules that need more than one field."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from topology.acknowledgement import AcknowledgementMode
from topology.acknowledgement_rules import acknowledgement_rules
from topology.client_rules import client_rules, timing_rules
from topology.dialect_rules import dialect_rules, redelivery_rules, slow_patterns
from topology.made_names import policy_entries
from topology.name_rules import name_rules
from topology.serde_rules import serde_rules
from topology.settings import Ordering, Settings
from topology.violations import Violation

OUR_PACKAGES = frozenset({"cli", "consumers", "pipeline", "serdes", "topology", "transport"})
"""Top-level packages of this project: a module of the same name beside the configuration would never be found."""


def violations(settings: Settings) -> Iterator[Violation]:
    """Every rule that a configuration of the right shape breaks."""
    yield from client_rules(settings)
    for path, entry in policy_entries(settings):
        yield from redelivery_rules((*path, "redeliveryPolicy"), entry.redelivery_policy)
    wrong_maps = list(dialect_rules(settings))
    yield from wrong_maps
    slow = [] if wrong_maps else list(slow_patterns(settings))
    yield from slow
    if not (wrong_maps or slow):
        yield from name_rules(settings)
    yield from serde_rules(settings)
    yield from _handler(settings)
    yield from _limits(settings)
    yield from acknowledgement_rules(settings)
    yield from timing_rules(settings)


def _handler(settings: Settings) -> Iterator[Violation]:
    handler = settings.handler
    if handler is None:
        return
    package = handler.callable.partition(":")[0].partition(".")[0]
    if package in OUR_PACKAGES:
        yield Violation(
            ("handler", "callable"),
            f"is in {package}, which is the name of a package of this project",
            f"put it in a package or module of another name than {', '.join(sorted(OUR_PACKAGES))}",
        )
    if handler.deadline is not None and handler.deadline <= timedelta(0):
        problem = "is zero: every record would fail before its handler starts"
        yield Violation(("handler", "deadline"), problem, "write a longer one, or remove it to have none")
    if handler.slots > settings.limits.buffer_records:
        yield Violation(
            ("handler", "slots"),
            f"is {handler.slots}, but limits.bufferRecords lets only {settings.limits.buffer_records} records in",
            "lower it, or raise limits.bufferRecords",
            (("limits", "bufferRecords"),),
        )
    if not handler.non_blocking_redelivery and handler.ordering is Ordering.UNORDERED:
        yield Violation(
            ("handler", "nonBlockingRedelivery"),
            "is false, which keeps an order, but handler.ordering is unordered",
            "set handler.ordering to partition or key, or remove this",
            (("handler", "ordering"),),
        )


def _limits(settings: Settings) -> Iterator[Violation]:
    limits = settings.limits
    if "batch" in limits.model_fields_set and limits.buffer_records < limits.batch:
        yield Violation(
            ("limits", "bufferRecords"),
            f"is {limits.buffer_records}, less than limits.batch ({limits.batch}): a batch could never be full",
            "make it at least as large, or lower limits.batch",
            (("limits", "batch"),),
        )
    if settings.journal and settings.mode is not AcknowledgementMode.TRANSACTED:
        problem = f"is on, but in mode: {settings.mode} there is no transaction to write it in"
        yield Violation(("journal",), problem, "use mode: transacted, or turn it off", (("mode",),))
