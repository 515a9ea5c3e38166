"""All rules, and those about the handler and the limits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from kafka_redelivery.topology.config.rules.acknowledgement import acknowledgement_rules
from kafka_redelivery.topology.config.rules.clients import client_rules, timing_rules
from kafka_redelivery.topology.config.rules.dialects import dialect_rules, redelivery_rules, slow_patterns
from kafka_redelivery.topology.config.rules.names import name_rules
from kafka_redelivery.topology.config.settings import CodecSection, Ordering, SerdeSection, Settings
from kafka_redelivery.topology.faults import Path, Violation
from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode

_AVRO_ONLY = ("schemas", "reader", "write_id", "registry", "subject")


def serde_rules(settings: Settings) -> Iterator[Violation]:
    """Yield serde settings of sources and outputs that contradict each other or are incomplete."""
    sections: list[tuple[str, tuple[CodecSection, ...]]] = [
        ("sources", settings.sources),
        ("outputs", settings.outputs),
    ]
    for name, codecs in sections:
        for index, codec in enumerate(codecs):
            for side, serde in (("key", codec.key), ("value", codec.value)):
                path: Path = (name, index, side)
                if serde.format == "avro":
                    yield from _avro(path, serde, writes=name == "outputs")
                else:
                    yield from _other(path, serde)


def _other(path: Path, serde: SerdeSection) -> Iterator[Violation]:
    for field in _AVRO_ONLY:
        if getattr(serde, field) != SerdeSection.model_fields[field].default:
            name = str(SerdeSection.model_fields[field].alias)
            problem = f"is only for format: avro, but the format is {serde.format}"
            yield Violation((*path, name), problem, "write format: avro, or remove it", key=True)


def _avro(path: Path, serde: SerdeSection, *, writes: bool) -> Iterator[Violation]:
    if not serde.schemas and not serde.registry:
        problem = "is avro, but has neither schemas nor a registry"
        fix = "add schemas: {1: order.avsc} or registry: {url: http://registry:8081}"
        yield Violation((*path, "format"), problem, fix)
        return
    if serde.registry and "url" not in serde.registry:
        yield Violation((*path, "registry"), "has no url", "add url: http://registry:8081")
    if serde.write_id is not None and serde.schemas and serde.write_id not in serde.schemas and not serde.registry:
        known = ", ".join(str(number) for number in sorted(serde.schemas))
        problem = f"is {serde.write_id}, which is not in schemas"
        yield Violation((*path, "writeId"), problem, f"write one of {known}, or add the schema to schemas")
    if serde.subject is not None and not serde.registry:
        problem = "names a subject of a registry, but there is no registry"
        yield Violation((*path, "subject"), problem, "add registry, or write writeId instead", key=True)
    if writes and serde.write_id is None and not serde.registry:
        problem = "does not say which schema outputs are written with"
        fix = f"add writeId: {min(serde.schemas)}" if serde.schemas else "add writeId"
        yield Violation(path, problem, fix)


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
