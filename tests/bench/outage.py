"""Outage: a service that the handler asks is away for a minute; with the mode, without it, and with Spring Kafka."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from examples.flights.outage import Book
from kafka_redelivery.transport.broker.jars import kafka_jars
from kafka_redelivery.transport.broker.java import find_java
from tests.bench.bed import Bed
from tests.bench.options import Options
from tests.bench.result import Result
from tests.foreign.recipes.record import HERE as RECIPES
from tests.foreign.recipes.record import running

_PARTITIONS: Final = 4
_KEYS: Final = 100
_RATE: Final = 100
"""Records that arrive in a second, before, in and after the outage."""

_BEFORE_S: Final = 10.0
_AFTER_S: Final = 10.0
_AWAY_S: Final = 60.0
_QUICK_S: Final = 3.0
_STARTED_S: Final = 60.0
_ENDED_S: Final = 600.0

_POLICY: Final[Mapping[str, object]] = {
    "maximumRedeliveries": 4,
    "initialRedeliveryDelay": 1000,
    "useExponentialBackOff": True,
    "backOffMultiplier": 2,
}
_DELIVERIES: Final = 5
_DEPENDENCY: Final[Mapping[str, object]] = {
    "unavailable": ["examples.flights.handler:BookAwayError"],
    "firstPause": "1s",
    "longestPause": "10s",
}

OURS: Final[Mapping[str, Mapping[str, Any]]] = {
    "a declared dependency": {"dependencies": {"book": _DEPENDENCY}},
    "a declared dependency, blocking": {
        "dependencies": {"book": _DEPENDENCY},
        "handler_section": {"nonBlockingRedelivery": False, "ordering": "key"},
    },
    "no dependency": {},
}
SPRING: Final[Mapping[str, bool]] = {
    "Spring Kafka 4.1.1 with retry topics": True,
    "Spring Kafka 4.1.1 with retry topics, seekAfterError=false": False,
}


class Service(Book):
    """Knows which records it was asked about, in which order."""

    def __init__(self) -> None:
        super().__init__()
        self.answered: list[tuple[float, str, int]] = []
        """When it has answered (monotonic), and key and number of the record."""

        self.attempts: dict[int, int] = {}
        """The last attempt of each record."""

    def asked(self, path: str) -> bool:
        """Note record and attempt."""
        there = super().asked(path)
        key, number, attempt = path[1:].split("/")
        self.attempts[int(number)] = max(int(attempt), self.attempts.get(int(number), 0))
        if there:
            self.answered.append((time.monotonic(), key, int(number)))
        return there

    @property
    def done(self) -> set[int]:
        """The records that it has answered."""
        return {number for *_, number in list(self.answered)}

    def overtaken(self) -> int:
        """Return how many records were answered behind a later one of their key."""
        latest: dict[str, int] = {}
        found = 0
        for _, key, number in self.answered:
            found += number < latest.get(key, -1)
            latest[key] = max(number, latest.get(key, -1))
        return found


def run(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield a result for each of ours, then for each of Spring's."""
    options = options.with_changes(partitions=_PARTITIONS, slots=_PARTITIONS)
    for name, sections in OURS.items():
        source = bed.topic("source", _PARTITIONS)
        with Service() as service:
            sources = [{"topic": source, "dependencies": list(sections.get("dependencies", {}))}]
            policy = {"redeliveryPolicy": _POLICY}
            parameters = {"address": service.address}
            with bed.team(
                source, "AsksBook", options, parameters=parameters, sources=sources, policyEntry=policy, **sections
            ) as team:
                team.start("worker")
                team.start("scheduler")
                yield _measured(bed, options, name, source, team.dead_letters, service)
    for name, seeks in SPRING.items():
        source = bed.topic("source", _PARTITIONS)
        with Service() as service, _spring(bed, source, service, seeks=seeks):
            yield _measured(bed, options, name, source, f"{source}-dlt", service)


@contextmanager
def _spring(bed: Bed, source: str, service: Service, *, seeks: bool) -> Iterator[None]:
    jars = ":".join(str(jar) for jar in kafka_jars(lock_file=RECIPES / "spring_jars.txt", what="Spring Kafka"))
    program = Path(__file__).with_name("SpringOutage.java")
    java: list[str | Path] = [
        find_java(),
        "-Xmx512m",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp",
        jars,
        program,
    ]
    given = [bed.servers, source, service.address, str(_PARTITIONS), str(seeks).lower()]
    log = bed.folder / f"{source}.log"
    try:
        with running([*java, *given], log):
            _until(lambda: any(bed.cluster.members(source).values()), "Spring has partitions", _STARTED_S)
            yield
    except BaseException as error:
        error.add_note(log.read_text(encoding="utf-8", errors="replace")[-3000:])
        raise


def _measured(bed: Bed, options: Options, name: str, source: str, dead_letters: str, service: Service) -> Result:
    """Let records arrive, and the service be away in between."""
    before_s, away_s, after_s = (_QUICK_S,) * 3 if options.quick else (_BEFORE_S, _AWAY_S, _AFTER_S)
    n = round(_RATE * (before_s + away_s + after_s))
    bed.report_progress(f"{name}: before the outage")
    feeder = bed.start(
        "feed:feed_actor", topic=source, n=n, value_bytes=options.value_bytes, keys=_KEYS, rate=float(_RATE)
    )
    time.sleep(before_s)
    _until(lambda: service.calls, "the first record is handled", _STARTED_S)
    bed.report_progress(f"{name}: away for {away_s:g} s")
    service.away = True
    time.sleep(away_s)
    service.away, back_s = False, time.monotonic()
    bed.report_progress(f"{name}: back")
    with bed.cluster.follow(dead_letters) as dead:
        _until(lambda: len(service.done) + dead.count() >= n, "each record has an end", _ENDED_S)
        dead.read_on()
        died = len(dead.records)
    feeder.result()
    done = service.done
    arrived = _RATE * (back_s - service.calls[0])
    """Those with lower numbers had arrived when the service came back."""
    waited = [at_s - back_s for at_s, _, number in service.answered if number < arrived]
    return Result(
        workload="outage",
        mode=options.mode,
        params={
            "system": name,
            "declared": "dependencies" in OURS.get(name, {}),
            "n": n,
            "rate": _RATE,
            "away_s": away_s,
        },
        lost=n - len(done) - died if name in OURS else 0,
        details={
            "dead": died,
            "attempts": sum(service.attempts.values()) - len(service.attempts) + died,
            "calls": len(service.refused),
            "overtaken": service.overtaken(),
            "answered_again": len(service.answered) - len(done),
            "neither": n - len(done) - died,
            "caught_up_s": round(max([0.0, *waited]), 1),
        },
    )


def _until(condition: Any, what: str, within_s: float) -> None:  # noqa: ANN401 - any callable
    deadline_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"not within {within_s:g} s: {what}")
        time.sleep(0.1)
