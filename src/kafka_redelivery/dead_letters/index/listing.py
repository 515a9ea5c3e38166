"""Pages of a long list: any page of a million letters takes about as long as the first.

How many letters died in which part of time is counted once for a selection. It says in which part the letters of a page
are, so that only those are sorted.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka_redelivery.dead_letters.index.sql import Condition, table_for

if TYPE_CHECKING:
    from kafka_redelivery.dead_letters.index.index import Index, LetterRow

_PARTS: Final = 1024
_SORTED: Final = 20_000
"""A part with more letters is divided again, unless they died in the same millisecond."""

_NEWEST: Final = 'died_ms DESC, topic, partition, "offset" DESC'
_OLDEST: Final = 'died_ms, topic, partition, "offset"'


class Deaths(NamedTuple):
    """When the letters of a selection died."""

    meant: Condition
    """The letters that were counted."""

    from_ms: int
    width_ms: int
    """How long each part lasts."""

    counts: array[int]
    """How many letters died in each part of time, from ``from_ms`` on."""

    @property
    def total(self) -> int:
        """The number of letters."""
        return sum(self.counts)

    def page(self, skipped: int, limit: int, *, oldest: bool) -> _Page:
        """Return the parts that have the letters after the first ``skipped`` ones, the oldest or the newest first."""
        numbers = range(len(self.counts)) if oldest else range(len(self.counts) - 1, -1, -1)
        before, letters = 0, 0
        parts: list[int] = []
        for number in numbers:
            if before + letters >= skipped + limit:
                break
            if not parts and before + self.counts[number] <= skipped:
                before += self.counts[number]
            else:
                letters += self.counts[number]
                parts.append(number)
        if not parts:
            return _Page(0, 0, 0, 0)
        from_ms, until_ms = (self.from_ms + each * self.width_ms for each in (min(parts), max(parts) + 1))
        return _Page(from_ms, until_ms, letters, skipped - before)


class _Page(NamedTuple):
    """The time in which the letters of a page died."""

    from_ms: int
    until_ms: int
    letters: int
    """How many letters of the selection died in it."""

    skipped: int
    """How many of them come before the page."""

    @property
    def lasts_ms(self) -> int:
        return self.until_ms - self.from_ms

    @property
    def condition(self) -> Condition:
        return Condition("died_ms >= ? AND died_ms < ?", (self.from_ms, self.until_ms))


def deaths(index: Index, meant: Condition, within_s: float) -> Deaths:
    """Count when the letters died that meet a condition.

    Raises:
        IndexUnusableError: the index is damaged, and cannot be built anew.
        ConsumersError: it takes longer than ``within_s``.
    """
    ((first_ms, last_ms),) = index.once("SELECT min(died_ms), max(died_ms) FROM stored_letters")
    if first_ms is None:
        return Deaths(meant, 0, 1, array("q"))
    return _counted(index, meant, first_ms, last_ms + 1, within_s)


def listed(
    index: Index, found: Deaths, skipped: int, limit: int, within_s: float, *, oldest: bool = False
) -> list[LetterRow]:
    """Return a page of letters: ``limit`` of them, after the first ``skipped`` ones; raises as :func:`deaths`."""
    page = found.page(skipped, limit, oldest=oldest)
    width_ms = found.width_ms
    before_ms = 2 * page.lasts_ms
    while page.letters > _SORTED and width_ms > 1 and page.lasts_ms <= before_ms // 2:  # else letters are at both ends
        before_ms = page.lasts_ms
        finer = _counted(index, found.meant & page.condition, page.from_ms, page.until_ms, within_s)
        page, width_ms = finer.page(page.skipped, limit, oldest=oldest), finer.width_ms
    if not page.letters:
        return []
    meant = found.meant & page.condition
    order = _OLDEST if oldest else _NEWEST
    return index.select(meant.sql, meant.parameters, order, limit, within_s, page.skipped)


def _counted(index: Index, meant: Condition, from_ms: int, until_ms: int, within_s: float) -> Deaths:
    width_ms = max(1, -(-(until_ms - from_ms) // _PARTS))
    rows = index.rows(
        f"SELECT (died_ms - ?) // ? AS part, count(*) FROM {table_for(meant.sql)} WHERE {meant.sql} GROUP BY part",  # noqa: S608 - conditions are compiled
        (from_ms, width_ms, *meant.parameters),
        within_s,
    )
    counts = array("q", bytes(8 * _PARTS))
    for part, number in rows:
        counts[part] = number
    return Deaths(meant, from_ms, width_ms, counts)
