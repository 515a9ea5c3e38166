"""What a summary says of each kind of dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from kafka_redelivery.consumers.index.selecting import Condition
from kafka_redelivery.topology.redrive.summary_columns import By

BUCKETS: Final = 12
"""Parts of the time from the oldest letter to now, for the trend."""


class SummaryRow(NamedTuple):
    """One kind of dead letters."""

    kind: dict[By, str | int | None]
    letters: int
    states: dict[str, int]
    """How many letters are in which state, the most frequent first."""

    first_ms: int
    last_ms: int
    trend: tuple[int, ...]
    """How many died in each of :data:`BUCKETS` equal parts of :attr:`Summary.from_ms` to :attr:`Summary.to_ms`."""

    expires_ms: int | None
    """When the first of them expires that has not expired."""

    sent: int
    """How many were sent at least once."""

    recovered: int
    exception: str | None
    """Of one of them."""

    message: str | None


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


def summarise(
    rows: Callable[[str, Sequence[object]], Iterable[tuple[Any, ...]]],
    ours: Condition,
    meant: Condition,
    by: Sequence[By],
    now_ms: int,
) -> Summary:
    """Group letters.

    Args:
        rows: runs a query of the index.
        ours: the letters of the group.
        meant: those of them that are meant.
        by: what to group by.
        now_ms: the present (epoch ms).
    """
    visible = "NOT (expiration_ms > 0 AND expiration_ms <= ?)"
    (total, expired, others, unreadable, first_ms, last_ms) = next(
        iter(
            rows(
                f"""
        SELECT count(*) FILTER (mine AND wanted AND visible), count(*) FILTER (mine AND wanted AND NOT visible),
               count(*) FILTER (NOT mine AND NOT unreadable), count(*) FILTER (unreadable),
               min(died_ms) FILTER (mine AND wanted AND visible),
               max(died_ms) FILTER (mine AND wanted AND visible)
        FROM (SELECT ({ours.sql}) AS mine, ({meant.sql}) AS wanted, ({visible}) AS visible,
                     coalesce("group", '') = '' AS unreadable, died_ms FROM letters)
        """,  # noqa: S608 - conditions are compiled
                (*ours.parameters, *meant.parameters, now_ms),
            )
        )
    )
    if not total:
        return Summary([], 0, expired, others, unreadable, now_ms, now_ms)
    to_ms = max(now_ms, last_ms + 1)
    width = max(1, -(-(to_ms - first_ms) // BUCKETS))
    columns = [f'"{each}"' for each in by]
    names = ", ".join(columns)
    condition = ours & meant & Condition(visible, (now_ms,))
    # By state and part of time first: few rows are left, of which the rest is made.
    fine = rows(
        f"""
        SELECT {names}, state, least({BUCKETS - 1}, (died_ms - ?) // ?)::INTEGER AS part, count(*),
               min(died_ms), max(died_ms), min(nullif(expiration_ms, 0)), count(*) FILTER (sends > 0),
               count(*) FILTER (sends > 0 AND state = 'recovered'), any_value(exception), any_value(message)
        FROM letters WHERE {condition.sql}
        GROUP BY ALL
        """,  # noqa: S608 - conditions are compiled
        (first_ms, width, *condition.parameters),
    )
    kinds: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for row in fine:
        kinds.setdefault(row[: len(by)], []).append(row[len(by) :])
    found = [_row(dict(zip(by, kind, strict=True)), parts) for kind, parts in kinds.items()]
    found.sort(key=lambda each: (-each.letters, [str(value) for value in each.kind.values()]))
    return Summary(found, total, expired, others, unreadable, first_ms, to_ms)


def _row(kind: dict[By, str | int | None], parts: Sequence[tuple[Any, ...]]) -> SummaryRow:
    states: dict[str, int] = {}
    trend = [0] * BUCKETS
    for state, part, letters, *_ in parts:
        states[state] = states.get(state, 0) + letters
        trend[part] += letters
    expirations = [each[5] for each in parts if each[5] is not None]
    return SummaryRow(
        kind=kind,
        letters=sum(each[2] for each in parts),
        states=dict(sorted(states.items(), key=lambda each: -each[1])),
        first_ms=min(each[3] for each in parts),
        last_ms=max(each[4] for each in parts),
        trend=tuple(trend),
        expires_ms=min(expirations, default=None),
        sent=sum(each[6] for each in parts),
        recovered=sum(each[7] for each in parts),
        exception=next((each[8] for each in parts if each[8]), None),
        message=next((each[9] for each in parts if each[9]), None),
    )
