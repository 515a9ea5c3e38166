"""What `redelivery dlq export` would print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kafka_redelivery.dead_letters.reading import StoredLetter
from kafka_redelivery.dead_letters.standing import LetterState
from kafka_redelivery.topology.wire.expiry import has_expired


@dataclass(slots=True)
class Exportable:
    """The letters of an export, those included that have expired."""

    kinds: Counter[tuple[str, LetterState]] = field(default_factory=Counter)
    """How many there are, by origin and state."""

    expired: int = 0

    @property
    def total(self) -> int:
        """The number of lines."""
        return self.kinds.total()

    def add(self, origin: str, state: LetterState, number: int, expired: int) -> None:
        """Count letters that are alike; ``expired``: how many of them have expired."""
        self.kinds[origin, state] += number
        self.expired += expired


def exportable(letters: Iterable[StoredLetter], now_ms: int) -> Exportable:
    """Count letters that were read; ``now_ms``: the present (epoch ms)."""
    found = Exportable()
    for letter, standing, _ in letters:
        found.add(letter.origin, standing.state, 1, has_expired(letter.expiration_ms, now_ms))
    return found
