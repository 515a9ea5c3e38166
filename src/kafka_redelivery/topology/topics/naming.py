"""Names of Kafka topics. All names are built here, and never parsed.

To find out what a topic is for, build the names of everything that is configured and look the topic up among them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import NamedTuple

from kafka_redelivery.topology.durations import format_milliseconds, parse_milliseconds

MAX_NAME = 249
"""The length of the longest topic name that Kafka accepts."""

_LEGAL = re.compile(r"[A-Za-z0-9._-]+")
_ILLEGAL = re.compile(r"[^A-Za-z0-9._-]")


def names_group(template: str, group: str) -> bool:
    """Whether the names of a template belong to this group alone: with ``{group}``, or its name between two dots."""
    return "{group}" in template or f".{group}." in f".{template}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """The name templates of a group's topics, in which ``{group}``, ``{topic}`` and ``{delay}`` are replaced."""

    group: str
    retry: str = "{group}.retry.{delay}"
    mixed: str = "{group}.retry.mixed"
    ready: str = "{group}.ready.{topic}"
    journal: str = "{group}.journal"
    control: str = "{group}.control"
    redrive: str = "{group}.dlq"

    def tier_topic(self, delay_ms: int) -> str:
        """Return the name of the retry tier with this delay."""
        return self._fill(self.retry, delay=delay_token(delay_ms))

    def mixed_topic(self) -> str:
        """Return the name of the mixed topic, for remaining delays below the shortest tier of the ladder."""
        return self._fill(self.mixed)

    def ready_topic(self, source: str) -> str:
        """Return the name of a source's ready topic, which holds the records that are due again."""
        return self._fill(self.ready, topic=source)

    def other_groups(self, ready_topic: str) -> list[str]:
        """Return the other groups that have the same ready topic for a source of another name, by this template."""
        first, second = sorted(("{group}", "{topic}"), key=self.ready.find)
        prefix, _, rest = self.ready.partition(first)
        between, _, suffix = rest.partition(second)
        inner = ready_topic.removeprefix(prefix).removesuffix(suffix)
        found = []
        for at in range(1, len(inner)) if between else ():
            if inner.startswith(between, at):
                parts = {first: inner[:at], second: inner[at + len(between) :]}
                other = replace(self, group=parts["{group}"])
                if other != self and parts["{topic}"] and other.ready_topic(parts["{topic}"]) == ready_topic:
                    found.append(other.group)
        return found

    def journal_topic(self) -> str:
        """Return the name of the journal, which records the outcome of each source offset."""
        return self._fill(self.journal)

    def control_topic(self) -> str:
        """Return the name of the control topic, in which the group keeps what it knows about itself."""
        return self._fill(self.control)

    def jobs_topic(self) -> str:
        """Return the name of the topic with the jobs that send dead letters again."""
        return self._fill(self.redrive) + ".jobs"

    def actions_topic(self) -> str:
        """Return the name of the topic with what these jobs have done, and what became of it."""
        return self._fill(self.redrive) + ".actions"

    def parking_topic(self) -> str:
        """Return the name of the topic for dead letters that were sent again too often."""
        return self._fill(self.redrive) + ".parked"

    def internal_topics(self) -> frozenset[str]:
        """Return the topics that the group has whatever its sources are, without its tiers."""
        return frozenset(
            {
                self.mixed_topic(),
                self.journal_topic(),
                self.control_topic(),
                self.jobs_topic(),
                self.actions_topic(),
                self.parking_topic(),
            }
        )

    def dead_letter_topic(self, template: str, source: str) -> str:
        """Return the name of a source's dead-letter topic, from the template of its strategy."""
        return self._fill(template, topic=source)

    def tiers_among(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the topics that are retry tiers of this group, each with its delay in ms, the shortest first.

        A topic only counts as a tier if :meth:`tier_topic` builds the same name from its delay.
        """
        prefix, _, suffix = self._fill(self.retry, delay="\0").partition("\0")
        found = {}
        for topic in topics:
            if topic.startswith(prefix) and topic.endswith(suffix):
                token = topic[len(prefix) : len(topic) - len(suffix)]
                delay = parse_milliseconds(token)
                if delay and self.tier_topic(delay) == topic:
                    found[topic] = delay
        return dict(sorted(found.items(), key=itemgetter(1)))

    def ready_topics_among(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the topics that are ready topics of this group, each with its source, configured or not.

        A topic only counts as a ready topic if :meth:`ready_topic` builds the same name from the source.
        """
        prefix, _, suffix = self._fill(self.ready, topic="\0").partition("\0")
        found = {}
        for topic in topics:
            source = topic[len(prefix) : len(topic) - len(suffix)]
            if source and self.ready_topic(source) == topic:
                found[topic] = source
        return found

    def _fill(self, template: str, *, topic: str = "", delay: str = "") -> str:
        return template.replace("{group}", self.group).replace("{topic}", topic).replace("{delay}", delay)


def delay_token(delay_ms: int) -> str:
    """Return a delay as it is written in a topic name: ``250ms``, ``1s``, ``90s``, ``1h``.

    Raises:
        ValueError: the delay is not positive.
    """
    if delay_ms <= 0:
        raise ValueError(f"a tier's delay must be positive, got {delay_ms} ms")
    return format_milliseconds(delay_ms)


def kafka_topic(name: str) -> str:
    """Return the topic name of a broker's destination: each character that Kafka does not allow becomes ``_``."""
    topic = _ILLEGAL.sub("_", name)
    return topic.replace(".", "_") if topic in {".", ".."} else topic


class NameFault(NamedTuple):
    """A topic name that is illegal, too long or ambiguous."""

    role: str
    name: str
    problem: str

    def __str__(self) -> str:
        return f"topic name {self.name!r} ({self.role}) {self.problem}"


def check_names(names: Mapping[str, str]) -> list[NameFault]:
    """Return one error for each planned topic name that cannot be used.

    A name cannot be used if it is illegal, longer than 249 characters or used twice, or if it differs from another one
    only in ``.`` and ``_``, which Kafka's metrics do not tell apart.

    Args:
        names: the role of each topic, and its name; source topics included.
    """
    errors: list[NameFault] = []
    seen: dict[str, str] = {}
    for role, name in names.items():
        if not _LEGAL.fullmatch(name) or name in {".", ".."}:
            errors.append(NameFault(role, name, "may only contain letters, digits, '.', '_' and '-'"))
        elif len(name) > MAX_NAME:
            errors.append(NameFault(role, name, f"has {len(name)} characters, Kafka allows {MAX_NAME}"))
        other = seen.setdefault(name.replace(".", "_"), role)
        if other != role:
            errors.append(
                NameFault(
                    role, name, f"is ambiguous: {other} has the same name, or one that differs only in '.' and '_'"
                )
            )
    return errors
