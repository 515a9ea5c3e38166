"""Runs a group in which one process dies at a kill point."""

import os
import signal
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from kafka_redelivery.consumers.routes import MAX_PARTITIONS
from tests.crash.load import BY_HANDLER, SCRIPTS, SHORT_SESSION, expected, settings
from tests.crash.points import EAGER, KillPoint
from tests.crash.program import PROGRAM
from tests.crash.verdict import Verdict, judge
from tests.scenarios.cluster import Cluster
from tests.scenarios.forgetting import await_forgotten
from tests.scenarios.running import SIGKILLED, Group, Process, Role, script
from tests.scenarios.waiting import LONG_S, until
from tests.scenarios.words import script_with_text

_REFUSED: Final = frozenset({7, 8, 9})
"""Last digits of the records that the broker refuses for their size in flow ``refused``."""

_REJECTED, _RETRIED = 1, 2
"""Last digits of the records that are large in flow ``halted``, for a worker and for a scheduler."""

_LARGE: Final = 6000
_WORDY: Final = frozenset({0, 1, 2})
"""Last digits of the records that are a text in flow ``compressed``: dead letters, and a retry."""

_TEXT, _FITTING = 20_000, 10_000
"""The size of such a text, and a limit between its sizes with lz4 (12,300) and with zstd (7,800)."""

_FIRST, _MORE = 60, 30
_WIDE: Final = MAX_PARTITIONS + 2
"""Partitions of a source of which one worker alone owns more than it uses of a tier, and each of two fewer."""

_READS: Final = " reads "
"""Part of the log line with which a worker or scheduler starts."""


@dataclass(frozen=True, slots=True)
class Crash:
    """The result of one kill point."""

    point: KillPoint
    verdict: Verdict
    seconds: float


def crash(point: KillPoint, servers: str, folder: Path) -> Crash:
    """Let a process die at a kill point, restart it, wait until nothing is pending, and compare the results.

    Raises:
        AssertionError: it did not die there, or records stay pending; the logs of the processes are in its notes.
    """
    started = time.monotonic()
    folder.mkdir(parents=True)
    with ended(Group(Cluster(servers), f"c{uuid.uuid4().hex[:8]}", folder)) as group:
        scene = _Scene(point, group)
        scene.play()
        verdict = scene.judge()
    return Crash(point, verdict, time.monotonic() - started)


@contextmanager
def ended(group: Group) -> Iterator[Group]:
    """Kill the group's processes at the end; add their logs to any error as notes."""
    try:
        yield group
    except BaseException as error:
        for log in sorted(group.folder.glob("*.log")):
            error.add_note(f"--- {log.name}\n{log.read_text(encoding='utf-8', errors='replace')[-3000:]}")
        raise
    finally:
        for process in group.processes:
            process.end()


def trapped(group: Group, role: Role, trap: str, instance: str = "one") -> tuple[Process, Path]:
    """Start a process with a trap; return it and the file that it writes when the trap acts."""
    mark = group.folder / f"mark-{role}-{instance}-{len(group.processes)}"
    return group.start(role, instance, program=(*PROGRAM, trap, str(mark))), mark


def stopped(process: Process) -> bool:
    """Return whether the process is suspended."""
    return psutil.Process(process.pid).status() == psutil.STATUS_STOPPED


def joined(group: Group, role: Role) -> str:
    """Return the consumer group that processes of a role join."""
    return group.name if role == "worker" else f"{group.name}.scheduler"


def _partner(role: Role) -> Role:
    return "scheduler" if role == "worker" else "worker"


class _Scene:
    def __init__(self, point: KillPoint, group: Group) -> None:
        self._point = point
        self._group = group
        self._sent = 0
        self._refused: set[int] = set()

    def play(self) -> None:
        point, group = self._point, self._group
        self._prepare()
        if point.flow != "expired":
            self._send(_FIRST, refused=point.flow in {"refused", "compressed"})
        if point.flow == "compressed":  # as for a scheduler below
            self._limit((group.source, group.tier("100ms"), group.ready, group.dead_letters), _FITTING)
        if point.flow == "refused" and point.role == "scheduler":
            # The source, too, since the start check refuses a source with larger records; its records stay.
            self._limit((group.source, group.ready), _LARGE // 2)
        group.start(_partner(point.role), "other")
        second = self._second() if point.flow in {"left", "stalled"} else None
        dying, mark = trapped(group, point.role, point.trap)
        self._lead_to_death(dying, second)
        code = dying.wait(LONG_S)
        assert (code, mark.exists()) == (SIGKILLED, True), f"{point.role} ended with {code} instead of dying at {point}"
        assert mark.read_text(encoding="utf-8") == f"{point.step}:{point.when}"
        lives = dying.log.count(_READS)
        again = group.start(point.role, "one")
        self._send(_MORE)
        until(lambda: again.log.count(_READS) > lives or not again.running, "the restarted process reads or ends")
        group.settle()
        assert again.running, f"{point.role} ended again after {point}:\n{again.log[-3000:]}"
        group.stop()

    def judge(self) -> Verdict:
        outputs, dead = expected(self._sent, by_handler=self._point.by_handler)
        if self._point.role == "worker":
            return judge(self._group, outputs=outputs, dead=dead)
        # The scheduler dead-letters what it cannot release.
        refused = self._refused
        return judge(self._group, outputs=outputs - refused, dead=dead | refused)

    def _prepare(self) -> None:
        point, group = self._point, self._group
        full = point.flow == "full"
        kafka: dict[str, Any] = {"partition.assignment.strategy": point.strategy}
        if point.flow in {"joined", "left", "stalled", "expired"}:
            kafka |= SHORT_SESSION
        # The journal is written in the transaction, so other modes have none.
        sections: dict[str, Any] = {"mode": point.mode, "journal": point.mode == "transacted", "kafka": kafka}
        if point.by_handler:
            sections["acknowledgement"] = {"timeout": "1s"}
        if point.noting:
            sections["handler"] = {
                "slots": 2,
                "persistDeliveryCountBeforeDelivery": True,
                "nonBlockingRedelivery": False,
            }
        if point.batch:
            handler = sections.get("handler", {"slots": 2}) | ({"ordering": "key"} if point.noting else {})
            batch = {"callable": "tests.scenarios.handlers:scripted_batch", "batch": {"records": 5, "wait": "20ms"}}
            sections["handler"] = handler | batch
        if full:
            sections["limits"] = {"batch": 5, "bufferRecords": 6}
        group.prepare(
            partitions=_WIDE if point.wide else 2,
            output={"max.message.bytes": str(_LARGE // 2)} if point.flow == "refused" else None,
            **settings(1000 if full and point.role == "scheduler" else 100, **sections),
        )

    def _send(self, number: int, *, refused: bool = False) -> None:
        group, point = self._group, self._point
        records = []
        for n in range(self._sent, self._sent + number):
            last = n % 10
            do, padding = BY_HANDLER.get(last, ["ack"]) if point.by_handler else SCRIPTS.get(last, ["ok"]), 0
            if refused and point.flow == "halted":
                padding = _LARGE if last == (_REJECTED if point.role == "worker" else _RETRIED) else 0
            elif refused and point.flow == "refused" and last in _REFUSED:
                self._refused.add(n)
                if point.role == "worker":
                    do = [f"big {_LARGE}", "ok"]
                else:
                    do, padding = ["raise", "ok"], _LARGE
            elif point.flow == "full" and last > 5:
                do = ["sleep 0.05"] if point.role == "worker" else ["raise", "ok"]
            wordy = refused and point.flow == "compressed" and last in _WORDY
            records.append(script_with_text(n, do, _TEXT) if wordy else script(n, do, padding=padding))
        group.cluster.produce(group.source, records)
        self._sent += number

    def _limit(self, topics: Iterable[str], max_bytes: int) -> None:
        for topic in topics:
            self._group.cluster.alter(topic, max_message_bytes=str(max_bytes))

    def _second(self) -> Process:
        """Start a second process of the role without an instance name, so that it leaves the group when it ends."""
        process = self._group.start(self._point.role, None)
        self._members(1)
        return process

    def _members(self, number: int) -> None:
        name = joined(self._group, self._point.role)
        members = self._group.cluster.members
        until(
            lambda: len(found := members(name)) == number and all(found.values()),
            f"{name} has {number} members, each with partitions",
        )

    def _lead_to_death(self, dying: Process, second: Process | None) -> None:
        point = self._point
        match point.flow:
            case "joined":
                self._members(1)
                self._second()
                self._send(_MORE)
            case "left":
                if point.strategy == EAGER or point.number > 1:
                    self._members(2)
                self._send(_MORE)
                assert second is not None
                second.stop()
            case "stalled":
                self._members(2)
                self._send(_MORE)
                os.kill(dying.pid, signal.SIGSTOP)
                try:
                    self._members(1)
                finally:
                    os.kill(dying.pid, signal.SIGCONT)
                self._send(_MORE)
            case "halted":
                # At a start, limits below that of the source are refused.
                until(lambda: all(_READS in each.log for each in self._group.processes), "all processes read")
                topics = (self._group.ready, self._group.dead_letters)
                self._limit(topics[1:] if point.role == "worker" else topics, _LARGE // 2)
                self._send(_MORE, refused=True)
                until(lambda: "is halted at offset" in dying.log, "a partition is halted")
                self._limit(topics, 2**21)
            case "expired":
                until(lambda: all(_READS in each.log for each in self._group.processes), "all processes read")
                name = self._group.name
                await_forgotten(self._group.cluster, f"{name}.{point.role}.one", f"{name}.{_partner(point.role)}.other")
                self._send(_FIRST)
            case "stopped":
                self._members(1)
                until(lambda: sum(self._group.outputs().values()) > 5, "some outputs are written")
                dying.terminate()
            case _:
                pass
