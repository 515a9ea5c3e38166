"""What a summary says of each kind of dead letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafka_redelivery.dead_letters.index.sql import EVERY, Condition, table_for, unexpired
from kafka_redelivery.dead_letters.letter import By

if TYPE_CHECKING:
    from kafka_redelivery.dead_letters.index.index import Index

BUCKETS: Final = 12
"""Parts of the time from the oldest letter to now, for the trend."""

_LISTED: Final = 200
"""So many times are compared one by one, while the files are read; more are looked up."""


class SummaryRow(NamedTuple):
    """One kind of dead letters."""

    kind: dict[By, str | int | None]
    letters: int
    states: dict[str, int]
    """How many letters are in which state, the most frequent first."""

    first_ms: int
    last_ms: int
    born_ms: int
    """When the first letter of this kind died, of all that are kept, also those that are not meant."""

    trend: tuple[int, ...]
    """How many died in each of :data:`BUCKETS` equal parts of :attr:`Summary.from_ms` to :attr:`Summary.to_ms`."""

    expires_ms: int | None
    """When the first of them expires that has not expired."""

    sent: int
    """How many of this kind were sent at least once, of all that are kept, as ``recovered``: else those that are not
    decided yet would never have been sent."""

    recovered: int
    exception: str | None
    """Of the newest whose failure is known."""

    message: str | None
    place: str | None
    texts: tuple[tuple[str, int], ...] = ()
    """The most frequent texts, and how many letters have each, if they were asked for."""

    distinct: int = 0
    """How many distinct texts there are."""


class Summary(NamedTuple):
    """The kinds of dead letters, the most frequent first."""

    rows: list[SummaryRow]
    letters: int
    expired: int
    """Letters that are meant but have expired, so that they are hidden."""

    others: int
    """Letters of other groups."""

    unreadable: int
    """Records that name no group, so that they are no dead letters of this project."""

    from_ms: int
    to_ms: int

    def new_since(self, at_ms: int) -> Summary:
        """Return the kinds whose first letter died at this time (epoch ms) or later, and their letters."""
        rows = [row for row in self.rows if row.born_ms >= at_ms]
        return self._replace(rows=rows, letters=sum(row.letters for row in rows))


def summarise(index: Index, meant: Condition, by: Sequence[By], now_ms: int, texts: int = 0) -> Summary:
    """Group letters.

    Args:
        index: it is asked.
        meant: those of the group's letters that are meant.
        by: what to group by.
        now_ms: the present (epoch ms).
        texts: how many distinct texts to count of each kind; 0 = none, because it reads every message.
    """
    others, unreadable = index.not_ours
    ours = index.ours & meant
    alive = unexpired(now_ms)
    ((total, expired, first_ms, last_ms),) = index.rows(
        f"""
        SELECT count(*) FILTER (alive), count(*) FILTER (NOT alive),
               min(died_ms) FILTER (alive), max(died_ms) FILTER (alive)
        FROM (SELECT ({alive.sql}) AS alive, died_ms FROM {table_for(meant.sql)} WHERE {ours.sql})
        """,  # noqa: S608 - conditions are compiled
        alive.parameters + ours.parameters,
    )
    if not total:
        return Summary([], 0, expired, others, unreadable, now_ms, now_ms)
    to_ms = max(now_ms, last_ms + 1)
    width = max(1, -(-(to_ms - first_ms) // BUCKETS))
    names = ", ".join(f'"{each}"' for each in by)
    condition = ours & alive
    # By state and part of time first: few rows are left, of which the rest is made.
    fine = index.rows(
        f"""
        SELECT {names}, state, least({BUCKETS - 1}, (died_ms - ?) // ?)::INTEGER AS part, count(*),
               min(died_ms), max(died_ms), min(nullif(expiration_ms, 0)), count(*) FILTER (sends > 0),
               count(*) FILTER (sends > 0 AND state = 'recovered'), max(died_ms) FILTER (fingerprint IS NOT NULL)
        FROM letters WHERE {condition.sql}
        GROUP BY ALL
        """,  # noqa: S608 - conditions are compiled
        (first_ms, width, *condition.parameters),
    )
    kinds: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for row in fine:
        kinds.setdefault(row[: len(by)], []).append(row[len(by) :])
    lives = {} if meant == EVERY and not expired else _lives(index, names)
    failures = _failures(index, names, condition, kinds)
    counted = _texts(index, names, condition, texts) if texts else {}
    found = [
        _row(dict(zip(by, kind, strict=True)), parts, lives.get(kind), failures.get(kind), counted.get(kind, []))
        for kind, parts in kinds.items()
    ]
    found.sort(key=lambda each: (-each.letters, [str(value) for value in each.kind.values()]))
    return Summary(found, total, expired, others, unreadable, first_ms, to_ms)


def _lives(index: Index, names: str) -> dict[tuple[Any, ...], tuple[int, int, int]]:
    """Return when the first letter of each kind died, and how many were sent and recovered, whatever is meant."""
    rows = index.once(
        f"""
        SELECT {names}, min(died_ms), count(*) FILTER (sends > 0), count(*) FILTER (sends > 0 AND state = 'recovered')
        FROM letters WHERE {index.ours.sql} GROUP BY {names}
        """,  # noqa: S608 - conditions are compiled
        index.ours.parameters,
    )
    return {row[:-3]: (row[-3], row[-2], row[-1]) for row in rows}


def _failures(
    index: Index, names: str, condition: Condition, kinds: Mapping[tuple[Any, ...], Sequence[tuple[Any, ...]]]
) -> dict[tuple[Any, ...], tuple[str | None, str | None, str | None]]:
    """Return exception, message and place of a letter of each kind: of the newest, so that few messages are read."""
    known = ([each[-1] for each in parts if each[-1] is not None] for parts in kinds.values())
    times = sorted({max(each) for each in known if each})
    if not times:
        return {}
    listed = ", ".join(map(str, times)) if len(times) <= _LISTED else "SELECT unnest(?::BIGINT[])"
    rows = index.rows(
        f"""
        SELECT {names}, any_value(exception), any_value(message), any_value(place)
        FROM {table_for(names, condition.sql)}
        WHERE ({condition.sql}) AND died_ms IN ({listed})
        GROUP BY {names}
        """,  # noqa: S608 - conditions are compiled, and times are numbers
        (*condition.parameters, *([times] if len(times) > _LISTED else [])),
    )
    return {row[:-3]: (row[-3], row[-2], row[-1]) for row in rows}


def _texts(
    index: Index, names: str, condition: Condition, limit: int
) -> dict[tuple[Any, ...], list[tuple[str, int, int]]]:
    """Return the most frequent texts of each kind, with their letters, and with how many texts there are."""
    rows = index.rows(
        f"""
        WITH counted AS (
            SELECT {names}, message, count(*) AS letters FROM {table_for(names, condition.sql)}
            WHERE ({condition.sql}) AND message IS NOT NULL GROUP BY ALL
        )
        SELECT {names}, message, letters, count(*) OVER (PARTITION BY {names}) FROM counted
        QUALIFY row_number() OVER (PARTITION BY {names} ORDER BY letters DESC, message) <= {limit:d}
        ORDER BY letters DESC, message
        """,  # noqa: S608 - conditions are compiled
        condition.parameters,
    )
    found: dict[tuple[Any, ...], list[tuple[str, int, int]]] = {}
    for row in rows:
        found.setdefault(row[:-3], []).append(row[-3:])
    return found


def _row(
    kind: dict[By, str | int | None],
    parts: Sequence[tuple[Any, ...]],
    life: tuple[int, int, int] | None,
    failure: tuple[str | None, str | None, str | None] | None,
    texts: Sequence[tuple[str, int, int]],
) -> SummaryRow:
    states: dict[str, int] = {}
    trend = [0] * BUCKETS
    for state, part, letters, *_ in parts:
        states[state] = states.get(state, 0) + letters
        trend[part] += letters
    first_ms = min(each[3] for each in parts)
    born_ms, sent, recovered = life or (first_ms, sum(each[6] for each in parts), sum(each[7] for each in parts))
    exception, message, place = failure or (None, None, None)
    expirations = [each[5] for each in parts if each[5] is not None]
    return SummaryRow(
        kind=kind,
        letters=sum(each[2] for each in parts),
        states=dict(sorted(states.items(), key=lambda each: -each[1])),
        first_ms=first_ms,
        last_ms=max(each[4] for each in parts),
        born_ms=born_ms,
        trend=tuple(trend),
        expires_ms=min(expirations, default=None),
        sent=sent,
        recovered=recovered,
        exception=exception or None,
        message=message or None,
        place=place,
        texts=tuple((text, letters) for text, letters, _ in texts),
        distinct=texts[0][2] if texts else 0,
    )
