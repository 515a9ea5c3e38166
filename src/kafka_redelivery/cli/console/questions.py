"""The questions that pages ask the index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from kafka_redelivery.cli.console.letters import Letters, NoIndexYetError
from kafka_redelivery.cli.console.library_errors import LIBRARY_ERRORS
from kafka_redelivery.cli.console.selection_form import Chosen
from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.dead_letters.index import listing
from kafka_redelivery.dead_letters.index.index import Index, LetterRow
from kafka_redelivery.dead_letters.index.listing import Deaths, deaths
from kafka_redelivery.dead_letters.index.selecting import Condition, unexpired
from kafka_redelivery.dead_letters.index.summary import Summary
from kafka_redelivery.dead_letters.summary_columns import DEFAULT_BY, By
from kafka_redelivery.topology.policy.lineage import parse_message_id

_Answer = TypeVar("_Answer")

_MINUTE_MS: Final = 60_000
_WITHIN_S: Final = 10.0


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


def answered(wanted: Chosen, ask: Callable[[], _Answer]) -> tuple[_Answer | None, str]:
    """Return the answer about a selection, and why there is none.

    Both are empty if the selection has faults, and while the index is being built: the page says so itself.
    """
    if wanted.faults:
        return None, ""
    try:
        return ask(), ""
    except NoIndexYetError:
        return None, ""
    except LIBRARY_ERRORS as error:
        return None, str(error)


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
        return index.summary(by, index.condition(wanted.selection))

    return letters.ask(("summary", by, wanted.key, _minute()), ask)


def listed(letters: Letters, wanted: Chosen, offset: int, limit: int, *, oldest: bool) -> Listed:
    """Return letters, the newest first unless ``oldest``."""

    def count(index: Index) -> Deaths:
        meant = index.ours & index.condition(wanted.selection)
        return deaths(index, meant & unexpired(wall_clock_ms()), _WITHIN_S)

    minute = _minute()
    found = letters.ask(("deaths", wanted.key, minute), count)
    rows = letters.ask(
        ("list", wanted.key, offset, limit, oldest, minute),
        lambda index: listing.listed(index, found, offset, limit, _WITHIN_S, oldest=oldest),
    )
    return Listed(rows, found.total)


def one(letters: Letters, name: str) -> LetterRow | None:
    """Return what the index says of one letter; ``None`` if it has none with this id."""
    try:
        place = parse_message_id(name)
    except ValueError:
        return None

    def ask(index: Index) -> LetterRow | None:
        meant = index.ours & _at([place])
        return next(iter(index.select(meant.sql, meant.parameters)), None)

    return letters.ask(("one", place), ask)


def _at(places: Sequence[tuple[Any, ...]]) -> Condition:
    """Return the condition for the letters at some places: topic, partition and offset of each."""
    # The offsets are written out because files whose offsets are others are then not read.
    offsets = ", ".join(str(int(offset)) for _, _, offset in places)
    names = [f"{topic}-{partition}@{offset}" for topic, partition, offset in places]
    return Condition(f'"offset" IN ({offsets}) AND id IN (SELECT unnest(?::VARCHAR[]))', (names,))


def _minute() -> int:
    """Return the minute: what depends on the present is asked again after it."""
    return wall_clock_ms() // _MINUTE_MS
