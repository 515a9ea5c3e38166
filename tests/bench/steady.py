"""Records that come at a steady rate and all fail once: how late they come again."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.bench.bed import Bed, Team
from tests.bench.handlers import lateness_ms
from tests.bench.options import Options
from tests.bench.pair import Pair, Spent
from tests.bench.result import Lateness


@dataclass(frozen=True, slots=True)
class Steady:
    """What came of it."""

    late: Lateness
    report: dict[str, Any]
    spent: Spent


@contextmanager
def steady(
    bed: Bed,
    options: Options,
    *,
    n: int,
    rate: int,
    longest_ms: int,
    handler: str = "FailsOnce",
    told: dict[str, object],
    policy: dict[str, Any],
) -> Iterator[tuple[Team, Steady]]:
    """Run until all have succeeded; the group's topics are there in the block.

    Args:
        bed: where.
        options: mode, partitions, sizes.
        n: records.
        rate: records per second.
        longest_ms: the longest delay.
        handler: a subclass of :class:`tests.bench.handlers.FailsOnce`.
        told: what it is told, beside ``n``.
        policy: the ``policyEntry``.
    """
    source = bed.topic("source", options.partitions)
    whole = {"n": n, "fail_ratio": 1.0, "delay_ms": longest_ms, **told}
    with bed.team(source, handler, options, told=whole, policyEntry=policy) as team:
        pair = Pair(team, options, join=True)
        feeder = bed.start(
            "feed:feed_actor", topic=source, n=n, rate=rate, value_bytes=options.value_bytes, keys=options.keys
        )
        try:
            team.until_reached(within_s=3 * n / rate + longest_ms / 1000 + 120)
        finally:
            feeder.end()
        spent = pair.spent()
        team.stop()
        yield team, Steady(Lateness.of(lateness_ms(team.folder)), team.report(), spent)
