"""The web console: how long each view takes over HTTP while the index is there, and the memory of its process."""

import http.client
import math
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlencode, urlsplit

from tests.bench.bed import Bed, Team
from tests.bench.index import set_aside, sources_of, write_letters
from tests.bench.options import Options
from tests.bench.result import Result
from tests.scenarios.running import COMMAND, Process
from tests.scenarios.waiting import until

_PARTS: Final = 4
"""Memory is measured at a quarter of the letters, and at all of them."""

_TIMES: Final = 40
_FEW: Final = 10
_BUILT_S: Final = 300.0
_ADDRESS: Final = re.compile(r"(http://\S+)$", re.MULTILINE)
_COUNT: Final = re.compile(r"<b>([\d,]+)</b> letters?\b")


def run(bed: Bed, options: Options) -> Iterator[Result]:
    """Yield one result."""
    n = options.n or (20_000 if options.quick else 1_000_000)
    times = _FEW if options.quick else _TIMES
    source = bed.topic("source", options.partitions)
    with bed.team(source, "Passes", options, parameters={"n": n}, **sources_of(source, options)) as team:
        bed.report_progress(f"writing {n // _PARTS:,} dead letters")
        write_letters(team, range(n // _PARTS), options)
        console = _Console(team)
        console.wait_for(n // _PARTS)
        bed.report_progress("asking")
        console.ask(_FEW, n // _PARTS, options)
        few_mb = console.memory_mb()
        bed.report_progress(f"writing {n - n // _PARTS:,} dead letters")
        write_letters(team, range(n // _PARTS, n), options)
        set_aside(team, n, options)
        console.wait_for(n)
        bed.report_progress("asking")
        views = console.ask(times, n, options)
        many_mb = console.memory_mb()
    yield Result(
        workload="console",
        mode="transacted",
        params={"n": n, "times": times, **options.params("value_bytes", "partitions", "avro")},
        details={
            "views_ms": views,
            "p95_ms": max(each["p95"] for each in views.values()),
            "rss_mb": {n // _PARTS: few_mb, n: many_mb},
        },
    )


class _Console:
    """A console, and a browser's part of the protocol."""

    def __init__(self, team: Team) -> None:
        self._team = team
        file = ["--config", str(team.file), f"--index={team.folder / 'console'}", "--port=0"]
        self._process = Process("console", [*COMMAND, "console", *file], os.environ, team.folder / "console.log")
        team.processes.append(self._process)
        address = until(lambda: "".join(_ADDRESS.findall(self._process.log)[:1]), "the console has printed its address")
        self._connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)

    def get(self, path: str) -> str:
        """Return a page.

        Raises:
            RuntimeError: it is an error.
        """
        self._connection.request("GET", path)
        answer = self._connection.getresponse()
        text = answer.read().decode(errors="replace")
        if answer.status != http.client.OK:
            raise RuntimeError(f"{path}: {answer.status}\n{text[-2000:]}")
        return text

    def wait_for(self, letters: int) -> None:
        """Wait until the index has all letters."""
        self._connection.close()  # the console has closed it if nothing was asked for some seconds

        def counted() -> bool:
            found = _COUNT.search(self.get("/letters"))
            return found is not None and int(found[1].replace(",", "")) == letters

        until(counted, f"{letters:,} letters are indexed", within_s=_BUILT_S)

    def ask(self, times: int, letters: int, options: Options) -> dict[str, dict[str, float]]:
        """Request each view many times, one after the other, and return p50, p95 and maximum in ms."""
        found = {}
        for name, address in self._views(letters, options).items():
            self.get(address(-1))  # such as the first look at the topology
            taken = sorted(self._taken_ms(address(turn)) for turn in range(times))
            ranks = {"p50": 0.5, "p95": 0.95, "max": 1.0}
            found[name] = {rank: round(taken[math.ceil(share * times) - 1], 1) for rank, share in ranks.items()}
        return found

    def memory_mb(self) -> float:
        """Return the resident memory of the process."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        line = next(each for each in status.splitlines() if each.startswith("VmRSS"))
        return round(int(line.split()[1]) / 1024, 1)

    def _taken_ms(self, path: str) -> float:
        began_s = time.perf_counter()
        self.get(path)
        return (time.perf_counter() - began_s) * 1000

    def _views(self, letters: int, options: Options) -> dict[str, Callable[[int], str]]:
        """Return the addresses of each view, with another question at each turn where there is one."""
        topic, step = self._team.dead_letters, letters // options.partitions // (_TIMES + 2)

        def letter(turn: int) -> str:
            return f"/letters/{topic}-{turn % options.partitions}@{(turn + 1) * step}"

        def selected(view: str, turn: int, **more: str) -> str:
            where = f"attempts >= 3 and message like '%{turn + 1000}%'"
            return f"{view}?{urlencode({'where': where, **more})}"

        views: dict[str, Callable[[int], str]] = {
            "flow": lambda _: "/",
            "failures": lambda turn: f"/failures?since={turn + 30}d",
            "failures, the same again": lambda _: "/failures",
            "failures by a condition": lambda turn: selected("/failures", turn),
            "letters": lambda turn: f"/letters?page={turn + 2}",
            "letters, far behind": lambda turn: f"/letters?page={(turn + 1) * letters // 50 // (_TIMES + 2) + 1}",
            "letters by a condition": lambda turn: selected("/letters", turn),
            "letters by a value": lambda turn: "/letters?" + urlencode({"where": f"value ->> '$.order' = '{turn}'"}),
            "letters by exception": lambda turn: f"/letters?exception=Key*&page={turn + 2}",
            "letter": letter,
            "story of a letter": lambda turn: f"{letter(turn)}/story",
            "comparison": lambda turn: f"{letter(turn)}/compare?with={topic}-0@1",
            "redrive": lambda turn: f"/redrive?rate={turn + 10}",
            "redrive by a condition": lambda turn: selected("/redrive", turn),
            "export": lambda turn: f"/export?since={turn + 30}d",
            "purge": lambda _: "/purge",
            "jobs": lambda _: "/jobs",
            "waiting": lambda _: "/waiting",
            "topology": lambda _: "/topology",
            "audit": lambda _: "/audit",
        }
        found = re.search(r"/jobs/([0-9a-f]{10})", self.get("/jobs"))
        if found is not None:
            views["job"] = lambda _: f"/jobs/{found[1]}"
        return views
