"""Records that come at a steady rate and all fail once: how late they come again."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tests.bench.bed import Bed, Team
from tests.bench.handlers import lateness_ms
from tests.bench.options import Options
from tests.bench.pair import Pair, Spent
from tests.bench.result import Lateness

_NOTHING: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Steady:
    """What came of it."""

    late: Lateness
    first: Lateness
    """Of the records that warm worker and scheduler up; ``late`` is without them."""

    report: dict[str, Any]
    spent: Spent


@dataclass(frozen=True, slots=True)
class Flow:
    """What comes: ``n`` records, ``rate`` per second, with delays up to ``longest_ms``.

    The first ``warm_up`` are not measured, only counted.
    """

    n: int
    rate: int
    longest_ms: int
    warm_up: int


@contextmanager
def steady(
    bed: Bed,
    options: Options,
    flow: Flow,
    *,
    handler: str = "FailsOnce",
    told: Mapping[str, object] = _NOTHING,
    policy: Mapping[str, object],
) -> Iterator[tuple[Team, Steady]]:
    """Run until all have succeeded; the group's topics are there in the block.

    Args:
        bed: where.
        options: mode, partitions, sizes.
        flow: what comes.
        handler: :class:`tests.bench.handlers.FailsOnce` or a subclass.
        told: what it is told, beside the flow.
        policy: the ``policyEntry``.
    """
    source = bed.topic("source", options.partitions)
    whole = {"n": flow.n, "fail_ratio": 1.0, "delay_ms": flow.longest_ms, **told}
    with bed.team(source, handler, options, told=whole, policyEntry=policy) as team:
        pair = Pair(team, options, join=True)
        feeder = bed.start(
            "feed:feed_actor",
            topic=source,
            n=flow.n,
            rate=flow.rate,
            value_bytes=options.value_bytes,
            keys=options.keys,
        )
        try:
            team.until_reached(within_s=3 * flow.n / flow.rate + flow.longest_ms / 1000 + 120)
        finally:
            feeder.end()
        spent = pair.spent()
        team.stop()
        late = lateness_ms(team.folder)
        yield team, Steady(Lateness.of(late, flow.warm_up), Lateness.of(late[: flow.warm_up]), team.report(), spent)
