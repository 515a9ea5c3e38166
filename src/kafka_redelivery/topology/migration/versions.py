"""What each version of a broker knows: the names of its configuration file, and when they changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from kafka_redelivery.topology.migration.names import NAMES, VERSIONS

PRODUCTS = {"activemq": "ActiveMQ Classic", "artemis": "Artemis"}
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})(?:[.-][\w.-]{1,40})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class BrokerVersion:
    """The version whose rules apply to a broker's file.

    Attributes:
        broker: ``activemq`` or ``artemis``.
        number: its major and minor number.
    """

    broker: str
    number: tuple[int, int]

    @classmethod
    def of(cls, broker: str, text: str | None = None) -> BrokerVersion:
        """Return the version of a text such as ``2.40.0``; ``None`` is the newest known one.

        Raises:
            ValueError: the text is not a version, or this broker has no such major version.
        """
        known = VERSIONS[broker].split()
        number = _number(known[-1] if text is None else text)
        if number[0] not in {_number(each)[0] for each in known}:
            raise ValueError(f"{PRODUCTS[broker]} has no version {text}: known are {known[0]} to {known[-1]}")
        return cls(broker, number)

    def __str__(self) -> str:
        return f"{PRODUCTS[self.broker]} {self.number[0]}.{self.number[1]}"

    def has(self, versions: str) -> bool:
        """Whether a range of the table, such as ``2.18-2.20 2.43-``, includes this version."""
        return not versions or any(map(self._within, versions.split()))

    def _within(self, part: str) -> bool:
        first, dash, last = part.partition("-")
        lower = not first or _number(first) <= self.number
        return lower and (self.number <= _number(last or first) if last or not dash else True)


def _number(text: str) -> tuple[int, int]:
    found = _VERSION.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a version such as 2.40 or 5.18.6")
    return int(found[1]), int(found[2])


@cache
def names(broker: str, element: str) -> Mapping[str, str]:
    """Return the names that any version knows in an element, each with its range of versions."""
    return {name: versions for versions, listed in NAMES[broker].get(element, {}).items() for name in listed.split()}


def known_versions(broker: str) -> str:
    """Return the range of versions whose schemas are known, for messages."""
    known = VERSIONS[broker].split()
    return f"{PRODUCTS[broker]} {known[0]} to {known[-1]}"


def in_words(versions: str) -> str:
    """Return a range of the table in words, such as ``2.18 to 2.20`` or ``2.43 and later``."""
    return ", ".join(map(_words, versions.split()))


def _words(part: str) -> str:
    first, dash, last = part.partition("-")
    if not dash:
        return first
    return f"{first} and later" if not last else f"{first} to {last}" if first else f"versions up to {last}"
