"""The questions that pages ask the index."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from kafka_redelivery.cli.console.letters import Letters
from kafka_redelivery.cli.console.selection_form import Chosen
from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.consumers.index.index import Index, LetterRow
from kafka_redelivery.consumers.index.selecting import of_group, unexpired
from kafka_redelivery.consumers.index.summary import Summary
from kafka_redelivery.topology.redrive.letter import Selection
from kafka_redelivery.topology.redrive.summary_columns import DEFAULT_BY, By

_MINUTE_MS: Final = 60_000
_WITHIN_S: Final = 10.0

_NEWEST: Final = 'died_ms DESC, topic, partition, "offset" DESC'
_OLDEST: Final = 'died_ms, topic, partition, "offset"'


class Listed(NamedTuple):
    """A page of letters."""

    rows: list[LetterRow]
    total: int


class Kept(NamedTuple):
    """How many letters of the group there are."""

    topics: dict[str, int]
    states: dict[str, int]

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.topics.values())


def kept(letters: Letters) -> Kept:
    """Return how many letters there are, by topic and by state, without expired ones."""

    def ask(index: Index) -> Kept:
        found = index.summary((By.TOPIC, By.STATE))
        topics: Counter[str] = Counter()
        states: Counter[str] = Counter()
        for row in found.rows:
            topics[str(row.kind[By.TOPIC])] += row.letters
            states[str(row.kind[By.STATE])] += row.letters
        return Kept(dict(topics.most_common()), dict(states.most_common()))

    return letters.ask(("kept", _minute()), ask)


def summary(letters: Letters, wanted: Chosen, by: tuple[By, ...] = DEFAULT_BY) -> Summary:
    """Return groups of letters."""

    def ask(index: Index) -> Summary:
        return index.summary(by, index.needed_condition(wanted.selection))

    return letters.ask(("summary", by, wanted.key, _minute()), ask)


def listed(letters: Letters, wanted: Chosen, offset: int, limit: int, *, oldest: bool) -> Listed:
    """Return letters, the newest first unless ``oldest``."""

    def ask(index: Index) -> Listed:
        group = letters.settings.group
        meant = of_group(group) & index.needed_condition(wanted.selection) & unexpired(wall_clock_ms())
        order = f"{_OLDEST if oldest else _NEWEST} LIMIT {limit:d} OFFSET {offset:d}"
        rows = index.select(meant.sql, meant.parameters, order, within_s=_WITHIN_S)
        ((total,),) = index.rows(
            f"SELECT count(*) FROM letters WHERE {meant.sql}",  # noqa: S608 - conditions are compiled
            meant.parameters,
            _WITHIN_S,
        )
        return Listed(rows, int(total))

    return letters.ask(("list", wanted.key, offset, limit, oldest, _minute()), ask)


def one(letters: Letters, name: str) -> LetterRow | None:
    """Return what the index says of one letter."""

    def ask(index: Index) -> LetterRow | None:
        meant = of_group(letters.settings.group) & index.needed_condition(Selection(ids=frozenset({name})))
        return next((each for each in index.select(meant.sql, meant.parameters, limit=5) if each.id == name), None)

    return letters.ask(("one", name), ask)


def _minute() -> int:
    """Return the minute: what depends on the present is asked again after it."""
    return wall_clock_ms() // _MINUTE_MS
