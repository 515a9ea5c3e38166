"""Address settings by match, and the settings that apply to an address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cmp_to_key
from itertools import pairwise
from typing import Any

from kafka_redelivery.topology.artemis.address_settings import AddressSettings, merged
from kafka_redelivery.topology.artemis.match import DEFAULT_WILDCARDS, Wildcards, compiled, matches
from kafka_redelivery.topology.artemis.ranking import compare, hash_order
from kafka_redelivery.topology.errors import MatchError

Layer = dict[str, Any]
"""The values of one address setting, by their names in ``broker.xml``."""

_QUEUE = "::"
"""Separates address and queue in a fully qualified queue name."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The settings of one address, and the matches that they come from, the most specific first.

    ``tie`` is whether two of the matches are equally specific, so the broker orders them by their hash.
    """

    settings: AddressSettings
    matches: tuple[str, ...]
    tie: bool


@dataclass(slots=True)
class SettingsRepository:
    """A repository of address settings; a match that is added again replaces the earlier one.

    Source: ``HierarchicalObjectRepository``.
    """

    wildcards: Wildcards = DEFAULT_WILDCARDS
    literal_markers: str | None = None
    """Two characters; a match enclosed in them is taken literally, wildcards included."""

    _exact: dict[str, Layer] = field(default_factory=dict)
    _literal: dict[str, Layer] = field(default_factory=dict)
    _wildcard: dict[str, Layer] = field(default_factory=dict)

    def add(self, match: str, layer: Mapping[str, Any]) -> None:
        """Add one address setting.

        Raises:
            MatchError: the match cannot be used.
        """
        name, literal = self.checked(match)
        if literal:
            self._literal[name] = dict(layer)
        else:
            known = self._wildcard if self.wildcards.used_in(name) else self._exact
            known[name] = dict(layer)

    def checked(self, match: str) -> tuple[str, bool]:
        """Return a match as it is compared with addresses, and whether it is taken literally.

        Raises:
            MatchError: the match cannot be used.
        """
        name, literal = self._unmarked(match)
        name = address_of(name)
        # The broker compiles every match, although it never uses the pattern of a literal or exact one.
        compiled(name, self.wildcards)
        return name, literal

    def resolve(self, address: str) -> Resolved:
        """Return the settings of an address, or of the address of ``address::queue``."""
        name = address_of(address)
        ranked = self._ranked(name)
        tie = any(compare(one, other, self.wildcards) == 0 for one, other in pairwise(ranked))
        found = [(name, known[name]) for known in (self._exact, self._literal) if name in known]
        found += [(match, self._wildcard[match]) for match in ranked]
        return Resolved(merged([layer for _, layer in found]), tuple(match for match, _ in found), tie)

    def _ranked(self, address: str) -> list[str]:
        def signed(one: str, other: str) -> int:
            return compare(one, other, self.wildcards)

        applying = [match for match in hash_order(self._wildcard) if matches(match, address, self.wildcards)]
        return sorted(applying, key=cmp_to_key(signed))

    def _unmarked(self, match: str) -> tuple[str, bool]:
        markers = self.literal_markers
        if not markers:
            return match, False
        if not match:
            raise MatchError(
                match, "is empty; with literal-match-markers, the broker does not start with an empty match"
            )
        if match[0] == markers[0] and match[-1] == markers[1]:
            return match[1:-1], True
        return match, False


def address_of(name: str) -> str:
    """Return the address of a fully qualified queue name, or the name itself if it is an address."""
    address, found, _ = name.partition(_QUEUE)
    return address if found else name
