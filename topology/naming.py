"""All topic names are made here, and nowhere taken apart.

A name is inverted through the configuration: whoever wants to know what a topic is makes the names of
everything that is configured and looks it up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from topology.errors import TopicNameError

MAX_NAME = 249
"""Longest topic name that a Kafka broker accepts."""

_LEGAL = re.compile(r"[A-Za-z0-9._-]+")
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000))
_DELAY = re.compile(r"([1-9][0-9]{0,15})(ms|s|m|h|d)")
_MILLISECONDS = {**dict(_UNITS), "ms": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """The templates of a group's topics. ``{group}``, ``{topic}`` and ``{delay}`` are replaced."""

    group: str
    retry: str = "{group}.retry.{delay}"
    mixed: str = "{group}.retry.mixed"
    ready: str = "{group}.ready.{topic}"
    journal: str = "{group}.journal"

    def tier_topic(self, delay_ms: int) -> str:
        """The retry tier with one fixed delay."""
        return self._fill(self.retry, delay=delay_token(delay_ms))

    def mixed_topic(self) -> str:
        """Remainders below the smallest tier of a ladder."""
        return self._fill(self.mixed)

    def ready_topic(self, source: str) -> str:
        """What is due again, for this group's workers alone."""
        return self._fill(self.ready, topic=source)

    def journal_topic(self) -> str:
        """What became of which origin offsets."""
        return self._fill(self.journal)

    def dead_letter_topic(self, template: str, source: str) -> str:
        """The dead-letter topic of a source, from its strategy's template."""
        return self._fill(template, topic=source)

    def tiers_among(self, topics: Iterable[str]) -> dict[str, int]:
        """Those of the topics that are retry tiers of this group, with their delay in ms.

        A candidate's delay counts only if naming that tier gives the same name again.
        """
        prefix, _, suffix = self._fill(self.retry, delay="\0").partition("\0")
        found = {}
        for topic in topics:
            if topic.startswith(prefix) and topic.endswith(suffix):
                token = topic[len(prefix) : len(topic) - len(suffix)]
                delay = _parse_token(token)
                if delay is not None and self.tier_topic(delay) == topic:
                    found[topic] = delay
        return found

    def _fill(self, template: str, *, topic: str = "", delay: str = "") -> str:
        return template.replace("{group}", self.group).replace("{topic}", topic).replace("{delay}", delay)


def delay_token(delay_ms: int) -> str:
    """A delay as it stands in a topic's name: ``250ms``, ``1s``, ``90s``, ``1h``.

    Raises:
        ValueError: the delay is not positive.
    """
    if delay_ms <= 0:
        msg = f"a tier's delay must be positive, got {delay_ms} ms"
        raise ValueError(msg)
    for unit, size in _UNITS:
        if delay_ms % size == 0:
            return f"{delay_ms // size}{unit}"
    return f"{delay_ms}ms"


def _parse_token(token: str) -> int | None:
    match = _DELAY.fullmatch(token)
    return None if match is None else int(match[1]) * _MILLISECONDS[match[2]]


def check_names(names: Mapping[str, str]) -> list[TopicNameError]:
    """Every fault among the planned names.

    Args:
        names: what a topic is for -> its name; the source topics belong to it too.

    Returns:
        one error for each name that is illegal, longer than 249, used twice, or that the broker would
        confuse with another in its metrics (``.`` and ``_`` are the same there).
    """
    faults: list[TopicNameError] = []
    seen: dict[str, str] = {}
    for role, name in names.items():
        if not _LEGAL.fullmatch(name) or name in {".", ".."}:
            faults.append(TopicNameError(name, f"({role}) may only hold letters, digits, '.', '_' and '-'"))
        elif len(name) > MAX_NAME:
            faults.append(TopicNameError(name, f"({role}) has {len(name)} characters, the broker allows {MAX_NAME}"))
        other = seen.setdefault(name.replace(".", "_"), role)
        if other != role:
            faults.append(
                TopicNameError(
                    name, f"({role}) is ambiguous: {other} has the same or one that differs only in '.' and '_'"
                )
            )
    return faults
