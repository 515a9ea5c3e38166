"""Records that arrive at a steady rate and all fail once: how late they are redelivered."""

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
    """The measurements of a run."""

    late: Lateness
    first: Lateness
    """Lateness of the warm-up records, which ``late`` leaves out."""

    report: dict[str, Any]
    spent: Spent


@dataclass(frozen=True, slots=True)
class Flow:
    """The arriving records: ``n`` records, ``rate`` per second, with delays up to ``longest_ms`` milliseconds.

    The first ``warm_up`` are counted and not measured.
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
    parameters: Mapping[str, object] = _NOTHING,
    policy: Mapping[str, object],
) -> Iterator[tuple[Team, Steady]]:
    """Run until all records have succeeded; the group's topics exist within the block.

    Args:
        bed: the test bed.
        options: mode, partitions and sizes.
        flow: the arriving records.
        handler: :class:`tests.bench.handlers.FailsOnce` or a subclass.
        parameters: the handler's parameters in addition to those of the flow.
        policy: the ``policyEntry``.
    """
    source = bed.topic("source", options.partitions)
    whole = {"n": flow.n, "fail_ratio": 1.0, "delay_ms": flow.longest_ms, **parameters}
    with bed.team(source, handler, options, parameters=whole, policyEntry=policy) as team:
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
