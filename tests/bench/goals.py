"""The goals, and whether the results of a run meet them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.bench.result import Result
from tests.bench.wide import NARROW

SPRING = {"W1": 1214, "W2": 900}
"""Records/s of Spring Kafka 4.1.1 with its retry topics, tuned, 20,000 records, all failing; 2026-11-30."""

CLASSIC = {"W1": 2539, "W2": 1442}
"""Records/s of ActiveMQ Classic 6.3.1 with non-blocking redelivery by the client, measured in the same way."""

SPRING_TIMES, CLASSIC_TIMES = 10, 3
RETRY_BYTES, DEAD_LETTER_BYTES = 400, 1500
RSS_MB, RSS_FLAT = 150, 1.2
LIST_S, RATE_WITHIN = 10, 0.05
FLOOR_TIMES = 1.6
WIDE_RATE, WIDE_CPU, WIDE_P50_MS, WIDE_P99_MS = 0.7, 1.7, 40, 150
MANY_GROWTH = 1.2
BUILD_PER_CORE, ASK_S = 100_000, 1.0
VIEW_MS, CONSOLE_FLAT = 300, 1.2
FIRST_TIMES = 1.5
"""Of the start of a Spark job to its first commit, beside a bare one."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A row of the table of goals."""

    what: str
    goal: str
    measured: str
    met: bool

    @property
    def verdict(self) -> str:
        """Return ``met`` or ``missed``."""
        return "met" if self.met else "missed"


def goals(results: Sequence[Result]) -> list[Goal]:
    """Return the goals that the results measure, in their order."""
    return [goal for result in results for goal in _JUDGES[result.workload](result)]


def ratio_goal(result: Result) -> float | None:
    """Return the least ratio of throughputs to reach; ``None`` without a goal."""
    match result.workload:
        case "W0" if result.params["output"]:
            return 0.7
        case "W0":
            return 0.9 if result.mode == "auto" else 0.8
        case "W1" if result.params["fail_ratio"] == 1.0:
            return 0.5
        case "W2":
            return 0.5
        case "redrive":
            return 0.6
        case "spark":
            return 0.5 if result.params["fail_ratio"] else 0.7
        case "dataframe" if "fail_ratio" not in result.params:
            return 0.5
        case "dataframe":
            return 0.65 if result.params["fail_ratio"] else 0.8
        case "keys" if result.params["ordering"] == "key":
            return 0.9
        case _:
            return None


def _w0(result: Result) -> Iterator[Goal]:
    what = "one output each" if result.params["output"] else "no-op handler"
    for goal in _ratio(result, f"W0, {what}, {result.mode}"):
        same = result.details["ratio_at_same_batch"]
        yield replace(goal, measured=f"{goal.measured}; {same:.2f} of it with the worker's batches")


def _hops(result: Result) -> Iterator[Goal]:
    name = result.workload
    if result.params.get("fail_ratio", 1.0) != 1.0:
        return
    yield from _ratio(result, f"{name}, all fail, {result.mode}: hops/s")
    rate = result.records_per_s or 0
    for peer, figures, times in (("Spring Kafka", SPRING, SPRING_TIMES), ("ActiveMQ Classic", CLASSIC, CLASSIC_TIMES)):
        figure = figures[name]
        measured = f"{rate:,.0f} / {figure:,} = {rate / figure:.1f}"
        yield Goal(f"{name}: records/s v. {peer}", f">= {times} times", measured, rate >= times * figure)
    bare = result.details.get("floor")
    if bare is not None:
        own, least = (each["worker"] + each["scheduler"] for each in (result.details["cpu_us"], bare))
        measured = f"{own:.1f} / {least:.1f} us = {own / least:.2f}; {rate:,.0f} / {bare['records_per_s']:,} per s"
        what = f"{name}: CPU of worker and scheduler v. their reads and writes alone"
        yield Goal(what, f"<= {FLOOR_TIMES} times", measured, own <= FLOOR_TIMES * least)


def _release(result: Result) -> Iterator[Goal]:
    late, base = result.lateness, result.baseline
    if late is None or base is None or base.lateness is None:
        return
    what = f"release lateness at {result.params['rate']:,}/s, {result.mode}"
    for name in ("p50", "p99"):
        ours, naive = getattr(late, name), getattr(base.lateness, name)
        measured = f"{ours:.1f} / {naive:.1f} ms = {ours / naive:.2f}"
        yield Goal(f"{what}: {name} v. naive", "<= 0.5", measured, ours <= naive / 2)
    p50, p99 = (10, 50) if result.mode == "transacted" else (5, 20)
    measured = f"{late.p50:.1f} / {late.p99:.1f} ms"
    yield Goal(f"{what}: aim", f"p50 <= {p50}, p99 <= {p99} ms", measured, late.p50 <= p50 and late.p99 <= p99)


def _parked(result: Result) -> Iterator[Goal]:
    late, base = result.lateness, result.baseline
    if late is None or base is None or base.lateness is None or result.rss_scheduler_mb is None:
        return
    what = f"W3, {result.params['pending']:,} pending"
    measured = f"{late.p99:.0f} / {base.lateness.p99:.0f} ms = {late.p99 / base.lateness.p99:.2f}"
    yield Goal(f"{what}: lateness p99 v. {base.name}", "<= 2", measured, late.p99 <= 2 * base.lateness.p99)
    few = float(result.details["rss_peak_mb_few"]["scheduler"])
    flat = result.rss_scheduler_mb <= max(few * RSS_FLAT, few + 10)
    number = int(base.name.partition(" ")[0])
    measured = f"{result.rss_scheduler_mb:.0f} MB, {'' if flat else 'not '}flat: {few:.0f} MB with {number:,} pending"
    yield Goal(f"{what}: scheduler RSS", f"<= {RSS_MB} MB, flat", measured, flat and result.rss_scheduler_mb <= RSS_MB)


def _tiers(result: Result) -> Iterator[Goal]:
    late, base = result.lateness, result.baseline
    if late is None or base is None or base.lateness is None:
        return
    measured = f"p50 {late.p50:.0f}, p99 {late.p99:.0f} ms; fixed {base.lateness.p50:.0f}, {base.lateness.p99:.0f} ms"
    # Both have some thousand records, measured one after the other, so a difference below a quarter is noise.
    yield Goal(
        "delays between tiers: lateness", "the same (within 25 %)", measured, late.p99 <= 1.25 * base.lateness.p99
    )
    over, max_hops = result.details["hops_over_limit"], result.details["hops_max"]
    measured = f"mean {result.details['hops_mean']}, max {max_hops}, {over} records over"
    yield Goal("delays between tiers: hops", "<= 2 + log2(delay / smallest tier), rounded up", measured, not over)


def _keys(result: Result) -> Iterator[Goal]:
    yield from _ratio(result, f"handler sleeps 20 ms, 64 slots, by key, {result.params['handler']}")


def _headers(result: Result) -> Iterator[Goal]:
    retry, dead = result.header_retry or 0, result.header_dead_letter or 0
    yield Goal("headers of a retry", f"<= {RETRY_BYTES} bytes", f"{retry} bytes", retry <= RETRY_BYTES)
    yield Goal("headers of a dead letter", f"<= {DEAD_LETTER_BYTES} bytes", f"{dead} bytes", dead <= DEAD_LETTER_BYTES)
    sizes = [tuple(result.details[name].values()) for name in ("retry_at", "dead_letter_at")]
    # A count of two digits takes one byte more than a count of one digit.
    same = all(late - early <= 1 for early, late in sizes)
    measured = ", ".join(f"{early} and {late}" for early, late in sizes)
    yield Goal("headers at attempts 2 and 50", "the same", f"{measured} bytes", same)


def _redrive(result: Result) -> Iterator[Goal]:
    n, rate, details = result.params["n"], int(str(result.params["rate"])), result.details
    listed = max(details["list_s"])
    yield Goal(f"redrive: list {n:,} dead letters", f"<= {LIST_S} s", f"{listed:.1f} s", listed <= LIST_S)
    yield from _ratio(result, f"redrive: {n:,} dead letters")
    held = float(details["rate_held"])
    within = abs(held / rate - 1)
    measured = f"{held:,.0f} per s ({within:.1%})"
    yield Goal(f"redrive: --rate {rate:,} is held", "within 5 %", measured, within <= RATE_WITHIN)


def _index(result: Result) -> Iterator[Goal]:
    n, details = result.params["n"], result.details
    rate = float(details["per_core"])
    yield Goal(
        "index: first build, letters per second of a core",
        f">= {BUILD_PER_CORE:,}",
        f"{rate:,.0f}",
        rate >= BUILD_PER_CORE,
    )
    for what in ("list", "list_each", "summary"):
        seconds = float(details["asked_s"][what])
        yield Goal(f"index: {what} of {n:,} letters", f"<= {ASK_S:g} s", f"{seconds:.2f} s", seconds <= ASK_S)


def _console(result: Result) -> Iterator[Goal]:
    n = result.params["n"]
    for view, taken in result.details["views_ms"].items():
        measured = f"{taken['p50']:,.0f} / {taken['p95']:,.0f} / {taken['max']:,.0f} ms"
        yield Goal(f"console: {view}, {n:,} letters: p95", f"< {VIEW_MS} ms", measured, taken["p95"] < VIEW_MS)
    (few, few_mb), (many, many_mb) = result.details["rss_mb"].items()
    measured = f"{few_mb:,.0f} and {many_mb:,.0f} MB"
    flat = many_mb <= CONSOLE_FLAT * few_mb
    yield Goal(f"console: memory at {few:,} and {many:,} letters", f"<= {CONSOLE_FLAT:g} times", measured, flat)


def _outage(result: Result) -> Iterator[Goal]:
    cost = result.details
    if result.params["declared"]:
        measured = f"{cost['dead']}, {cost['attempts']}; {cost['calls']} calls while it was away"
        met = not cost["dead"] and not cost["attempts"]
        yield Goal(f"outage, {result.params['system']}: dead letters, attempts", "0, 0", measured, met)


def _spark(result: Result) -> Iterator[Goal]:
    what = f"Spark, {result.params['handler']}"
    if result.seconds is not None:
        yield Goal(what, f"<= {FIRST_TIMES:g} times", f"{result.ratio or 0:.2f}", (result.ratio or 0) <= FIRST_TIMES)
        return
    if "fail_ratio" in result.params:
        what += f", {float(str(result.params['fail_ratio'])):.0%} fail"
    yield from _ratio(result, what)


def _kill(result: Result) -> Iterator[Goal]:
    late = result.lateness
    if late is None:
        return
    who, stable, bound_s = result.params["who"], result.params["stable_name"], result.details["bound_s"]
    name = f"{who} killed, {'with' if stable else 'without'} a stable name"
    max_s = max(found["max"] for found in result.details["lateness_ms"].values()) / 1000
    measured = f"others {late.max / 1000:.1f} s, the killed one's own {max_s:.1f} s"
    yield Goal(f"{name}: latest", f"<= {bound_s:g} s", measured, max(late.max / 1000, max_s) <= bound_s)


def _many(result: Result) -> Iterator[Goal]:
    if "alone" not in result.details:
        return
    for role in ("worker", "scheduler"):
        # A busy machine makes idle processes fetch less often, so the bytes of a second say less.
        alone, now = (_kb_a_request(result.details[which][role]) for which in ("alone", "idle"))
        what = f"idle {role}: kB a request with {result.params['foreign_topics']:,} topics of others"
        yield Goal(what, f"<= {MANY_GROWTH} times", f"{now:.1f} / {alone:.1f}", now <= MANY_GROWTH * alone)


def _kb_a_request(used: dict[str, Any]) -> float:
    return float(used["kb"] / max(1.0, sum(used["requests"].values())))


def _wide(result: Result) -> Iterator[Goal]:
    if "narrow" not in result.details:
        return
    what = f"W1, {result.params['partitions']} partitions, tiers of {result.details['width']} v. {NARROW}"
    rate, cpu = result.records_per_s or 0.0, result.cpu_us_per_record or 0.0
    narrow_rate, narrow_cpu = result.details["narrow"]
    measured = f"{rate:,.0f} / {narrow_rate:,.0f} = {rate / narrow_rate:.2f}"
    yield Goal(f"{what}: records/s", f">= {WIDE_RATE}", measured, rate >= WIDE_RATE * narrow_rate)
    parts = ", ".join(f"{name} {us:.0f}" for name, us in result.details["cpu_us"].items() if name != "all")
    measured = f"{cpu:.0f} / {narrow_cpu:.0f} us = {cpu / narrow_cpu:.2f} ({parts})"
    yield Goal(f"{what}: CPU a record", f"<= {WIDE_CPU}", measured, cpu <= WIDE_CPU * narrow_cpu)


def _wide_release(result: Result) -> Iterator[Goal]:
    late, base = result.lateness, result.baseline
    if late is None or base is None or base.lateness is None:
        return
    naive = base.lateness
    measured = f"{late.p50:.1f} / {late.p99:.1f} ms; naive loop {naive.p50:.1f} / {naive.p99:.1f} ms"
    yield Goal(
        f"release at {result.params['rate']:,}/s, {result.params['partitions']} partitions, "
        f"tiers of {result.details['width']}",
        f"p50 <= {WIDE_P50_MS}, p99 <= {WIDE_P99_MS} ms",
        measured,
        late.p50 <= WIDE_P50_MS and late.p99 <= WIDE_P99_MS,
    )


def _ratio(result: Result, what: str) -> Iterator[Goal]:
    goal = ratio_goal(result)
    if goal is None:
        return
    base, ratio = result.baseline, result.ratio or 0.0
    limit = 0.0 if base is None or base.records_per_s is None else base.records_per_s
    name = "" if base is None else base.name
    measured = f"{ratio:.2f} ({ratio * limit:,.0f} / {limit:,.0f} per s, {name})"
    yield Goal(what, f">= {goal:g}", measured, ratio >= goal)


_JUDGES: dict[str, Callable[[Result], Iterator[Goal]]] = {
    "W0": _w0,
    "W1": _hops,
    "W2": _hops,
    "W3": _parked,
    "release": _release,
    "tiers": _tiers,
    "keys": _keys,
    "headers": _headers,
    "kill": _kill,
    "redrive": _redrive,
    "index": _index,
    "console": _console,
    "spark": _spark,
    "dataframe": _spark,
    "many": _many,
    "typed": lambda _: iter(()),  # it compares kinds of handlers
    "codecs": lambda _: iter(()),  # it compares formats
    "outage": _outage,
    "wide W1": _wide,
    "wide release": _wide_release,
    "wide slow": lambda _: iter(()),  # its figures are for the choice of a width
}
