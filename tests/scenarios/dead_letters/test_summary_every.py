"""`redelivery dlq summary --every` shows each change within seconds, and Ctrl-C ends it."""

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from tests.scenarios.redriving import dead_letter, dlq_json
from tests.scenarios.running import COMMAND, Group, Process
from tests.scenarios.waiting import LONG_S, until

pytestmark = pytest.mark.kafka


def test_a_line_for_each_change(group: Group) -> None:
    """New letters and changed states, and nothing in between."""
    group.prepare()
    dead_letter(group, range(4))
    command = [*COMMAND, "dlq", "summary", "--json", "--by", "origin", "--every", "200ms", "--config", str(group.file)]
    process = Process("summary", command, os.environ, group.folder / "summary.log", warm=True)
    group.processes.append(process)

    def lines() -> list[dict[str, Any]]:
        return [json.loads(line) for line in process.log.splitlines() if line.endswith("}")]

    until(lambda: len(lines()) == 1, "it shows what is there")
    assert lines()[0]["kinds"][0]["states"] == {"waiting": 4}
    dead_letter(group, [4])
    until(lambda: lines()[-1]["letters"] == 5, "it shows the new letter")
    dlq_json(group, "discard", "--id", f"{group.dead_letters}-0@0", "--yes")
    until(lambda: lines()[-1]["kinds"][0]["states"] == {"waiting": 4, "discarded": 1}, "it shows the new state")
    states = [(line["letters"], line["kinds"][0]["states"]) for line in lines()]
    assert all(one != other for one, other in pairwise(states))
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(LONG_S) == 0, process.log
    assert "Traceback" not in process.log


def test_a_table_on_a_terminal(group: Group) -> None:
    """Ctrl-C leaves the last table and the exit code 0."""
    group.prepare()
    dead_letter(group, range(3))
    ours, theirs = pty.openpty()
    command = [sys.executable, *COMMAND, "dlq", "summary", "--every", "200ms", "--config", str(group.file)]
    shown = bytearray()

    def read() -> None:
        with suppress(OSError):  # the process has ended
            while part := os.read(ours, 65536):
                shown.extend(part)

    with subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**os.environ, "COLUMNS": "200"},
    ) as process:
        os.close(theirs)
        # All the time, as a terminal does: a process that cannot write does not end.
        reader = threading.Thread(target=read)
        reader.start()
        try:
            until(lambda: b"3 dead letters" in shown, "it shows what is there")
            dead_letter(group, [3])
            until(lambda: b"4 dead letters" in shown, "it shows the new letter")
            assert b"+1" in shown
            process.send_signal(signal.SIGINT)
            assert process.wait(LONG_S) == 0, shown.decode()
        finally:
            process.kill()
            reader.join()
            os.close(ours)
    assert b"Traceback" not in shown
