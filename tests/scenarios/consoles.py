"""The console as a process, and the requests that a browser sends to it."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Final, Self

import httpx2 as httpx

from kafka_redelivery.transport.broker.guard import GuardedProcess
from tests.scenarios.running import COMMAND, KILLED_S, Group
from tests.scenarios.waiting import LONG_S, until

_ADDRESS: Final = re.compile(r"console of group \S+: (http://\S+)")
_CSRF: Final = re.compile(r'name="csrf" value="([^"]+)"')
_TIMEOUT_S: Final = 60.0


class RunningConsole:
    """A console that serves."""

    def __init__(self, group: Group, *options: str) -> None:
        self._log = group.folder / f"console-{len(list(group.folder.glob('console-*')))}.log"
        command = [sys.executable, *COMMAND, "console", "--config", str(group.file), "--port", "0", *options]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("REDELIVERY_")}
        with self._log.open("wb") as output:
            self._child = GuardedProcess(command, grace_seconds=1, env=environment, stdout=output, stderr=output)
        until(lambda: _ADDRESS.search(self.log) or self._ended(), "the console prints its address")
        found = _ADDRESS.search(self.log)
        assert found, f"the console has ended:\n{self.log}"
        self.address = found[1]

    @property
    def log(self) -> str:
        """What it has written."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def _ended(self) -> bool:
        return self._child.poll() is not None

    def stop(self, within_s: float = LONG_S) -> int:
        """Send SIGTERM, wait and return the exit code."""
        self._child.terminate()
        return self._child.wait(within_s)

    def close(self) -> None:
        """Kill it if it still runs."""
        if not self._ended():
            self._child.kill()
            self._child.wait(KILLED_S)


class Browser:
    """A person at a console, without scripts: links and forms."""

    def __init__(self, console: RunningConsole, headers: Mapping[str, str] | None = None) -> None:
        self.client = httpx.Client(base_url=console.address, timeout=_TIMEOUT_S, headers=headers)
        self._origin = console.address

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def get(self, path: str, code: int = 200, query: Mapping[str, str] | None = None) -> str:
        """Return a page."""
        answer = self.client.get(path, params=query)
        assert answer.status_code == code, (path, answer.status_code, text_of(answer.text)[-2000:])
        return answer.text

    def csrf(self) -> str:
        """Return what each form of this person has."""
        found = _CSRF.search(self.get("/topology"))
        assert found
        return found[1]

    def post(self, path: str, fields: Mapping[str, str] | None = None, code: int = 303) -> httpx.Response:
        """Send a form as a page of the console would."""
        data = {"csrf": self.csrf(), **(fields or {})}
        answer = self.client.post(path, data=data, headers={"Origin": self._origin})
        assert answer.status_code == code, (path, answer.status_code, text_of(answer.text)[-2000:])
        return answer

    def log_in(self, token: str) -> None:
        """Begin a session."""
        assert self.client.post("/login", data={"token": token, "next": "/"}).status_code == 303


@contextmanager
def console(group: Group, *options: str) -> Iterator[RunningConsole]:
    """Run a console until the end of the block."""
    found = RunningConsole(group, *options)
    try:
        healthz = f"{found.address}/healthz"
        until(lambda: httpx.get(healthz, timeout=_TIMEOUT_S).status_code == 200, "the console answers")
        yield found
    finally:
        found.close()


class Events:
    """Reads the events of a console in a thread."""

    def __init__(self, browser: Browser) -> None:
        self.seen: list[tuple[str, str]] = []
        self._browser = browser
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        event, data = "", []
        try:
            with self._browser.client.stream("GET", "/events", timeout=None) as answer:
                for line in answer.iter_lines():
                    name, _, value = line.partition(": ")
                    if name == "event":
                        event = value
                    elif name == "data":
                        data.append(value)
                    elif not line and event:
                        self.seen.append((event, "\n".join(data)))
                        event, data = "", []
        except httpx.HTTPError:
            pass  # the console was stopped

    @property
    def names(self) -> set[str]:
        """The kinds of events that came."""
        return {name for name, _ in self.seen}


def text_of(page: str) -> str:
    """Return what a page says, without its elements."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", page.partition("<main")[2] or page))).strip()


def tokens(folder: Path, **users: str) -> tuple[Path, dict[str, str]]:
    """Write a file with a token for each user, given with the role."""
    found = {name: f"{name}-has-a-token-of-{name}" for name in users}
    file = folder / "tokens"
    file.write_text("".join(f"{name} {role} {found[name]}\n" for name, role in users.items()), encoding="utf-8")
    file.chmod(0o600)
    return file, found
