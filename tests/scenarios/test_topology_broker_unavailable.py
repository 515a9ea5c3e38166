"""A broker that is not there gives one clear line and an exit code, not a traceback, and soon."""

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cli import exit_codes
from tests.scenarios.commands import redelivery

SOON_S = 40
"""Twice the time-out of ten seconds, and as much again for a busy machine."""


COMMANDS = (("topology", "plan"), ("topology", "apply"), ("topology", "check"), ("worker",), ("scheduler",))


@pytest.mark.long
def test_nobody_listens(tmp_path: Path) -> None:
    """Each command ends in one line that names the servers that were tried."""
    file = tmp_path / "redelivery.yaml"
    file.write_text(
        "group: g\nkafka: {bootstrap.servers: '127.0.0.1:1'}\nsources: [{topic: s}]\n"
        "handler: {callable: 'tests.scenarios.handlers:scripted'}\n",
        encoding="utf-8",
    )
    started = time.monotonic()
    with ThreadPoolExecutor() as pool:
        all_done = list(pool.map(lambda command: redelivery(*command, file=file), COMMANDS))
    assert time.monotonic() - started < SOON_S
    for command, done in zip(COMMANDS, all_done, strict=True):
        assert (done.code, done.out) == (exit_codes.BROKER_UNAVAILABLE, ""), command
        assert "Traceback" not in done.err
        told = [line for line in done.err.splitlines() if line.startswith("error: ")]
        assert len(told) == 1
        assert told[0].startswith("error: no Kafka broker answers at 127.0.0.1:1 (")
        if command[0] == "topology":
            assert done.err.splitlines() == told


def test_somebody_listens_who_is_no_broker(tmp_path: Path) -> None:
    """A port that takes connections and says nothing ends as soon."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{silent.getsockname()[1]}"
        file = tmp_path / "redelivery.yaml"
        file.write_text(
            json.dumps({"group": "g", "kafka": {"bootstrap.servers": servers}, "sources": [{"topic": "s"}]}),
            encoding="utf-8",
        )
        started = time.monotonic()
        done = redelivery("topology", "check", file=file)
        assert time.monotonic() - started < SOON_S
    assert done.code == exit_codes.BROKER_UNAVAILABLE
    assert done.err.startswith(f"error: no Kafka broker answers at {servers}")
    assert len(done.err.splitlines()) == 1
