"""Commands against an unavailable broker end soon, with one clear line and an exit code, without a traceback."""

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kafka_redelivery.topology import exit_codes
from tests.scenarios.commands import redelivery

SOON_S = 40
"""Twice the time-out of ten seconds, doubled for a busy machine."""


COMMANDS = (("topology", "plan"), ("topology", "apply"), ("topology", "check"), ("worker",), ("scheduler",))


@pytest.mark.long
def test_closed_port(tmp_path: Path) -> None:
    """Each command ends in one line that names the bootstrap servers."""
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
        errors = [line for line in done.err.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1
        assert errors[0].startswith("error: no Kafka broker answers at 127.0.0.1:1 (")
        if command[0] == "topology":
            assert done.err.splitlines() == errors


def test_port_of_another_service(tmp_path: Path) -> None:
    """A port that accepts connections and never answers ends as soon."""
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
