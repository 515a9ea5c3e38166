"""A command whose reader has gone, as in `redelivery ... | head -1`, ends as other Unix tools do: without a message."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_redelivery.topology import exit_codes

RUN = "from kafka_redelivery.cli.main import app; app()"
TEXT = "group: billing\nkafka: {{bootstrap.servers: 'nowhere:1'}}\nsources: [{sources}]\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration with so many sources that the output of a command does not fit into one write."""
    path = tmp_path / "redelivery.yaml"
    sources = ", ".join(f"{{topic: orders-{number}}}" for number in range(100))
    path.write_text(TEXT.format(sources=sources), encoding="utf-8")
    return path


def run_closed(script: str, *arguments: str, closed: str = "stdout") -> subprocess.CompletedProcess[str]:
    """Run a script that has a pipe without a reader as one of its streams, or with ``both`` as two."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run(
            [sys.executable, "-c", script, *arguments],
            stdout=subprocess.PIPE if closed == "stderr" else writer,
            stderr=subprocess.PIPE if closed == "stdout" else writer,
            text=True,
            check=False,
        )
    finally:
        os.close(writer)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["topology", "acls", "--help"],
        ["topology", "acls"],
        ["topology", "acls", "--format", "strimzi"],
        ["topology", "acls", "--format", "json"],
        ["explain", "orders-1", "orders-2"],
    ],
    ids=" ".join,
)
def test_nothing_reads_the_output(arguments: list[str], file: Path) -> None:
    """It says nothing and returns 1, whether a line, a table, a long text or a JSON document is printed."""
    config = [] if {"--version", "--help"} & set(arguments) else ["--config", str(file)]
    done = run_closed(RUN, *arguments, *config)
    assert (done.returncode, done.stderr) == (exit_codes.FAILED, "")


def test_a_reader_stops_before_the_end_of_the_help() -> None:
    """As in `redelivery worker --help | head -1`, where the library writes once more after the text."""
    script = (
        "import sys\n"
        "from kafka_redelivery.cli import main\n"
        "from typer import rich_utils\n"
        "print_help = rich_utils.rich_format_help\n"
        "def print_and_wait(**arguments):\n"
        "    print_help(**arguments)\n"
        "    print('.', end='', file=sys.stderr, flush=True)\n"
        "    sys.stdin.read()\n"
        "rich_utils.rich_format_help = print_and_wait\n"
        "main.app(['worker', '--help'])"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe, stderr=pipe) as command:
        assert command.stdin is not None
        assert command.stdout is not None
        assert command.stderr is not None
        assert command.stderr.read(1) == b"."
        command.stdout.close()
        command.stdin.close()
        assert command.stderr.read() == b""
    assert command.returncode == exit_codes.FAILED


def test_a_loop_ends() -> None:
    """Output that would never end does; the bytes of a record are output, too."""
    script = (
        "from kafka_redelivery.cli.output import print_bytes\n"
        "while True:\n    try: print_bytes(b'x' * 100_000)\n    finally: print('more')"
    )
    done = run_closed(script)
    assert (done.returncode, done.stderr) == (exit_codes.FAILED, "")


@pytest.mark.parametrize("closed", ["stderr", "both"])
def test_nothing_reads_the_messages(closed: str, tmp_path: Path) -> None:
    """As with `2>&1 | true`: a message that cannot be printed is no internal error."""
    done = run_closed(RUN, "topology", "acls", "--config", str(tmp_path / "missing.yaml"), closed=closed)
    assert (done.returncode, done.stdout or "", done.stderr or "") == (exit_codes.FAILED, "", "")


def test_another_broken_pipe_is_an_error() -> None:
    """A socket that the peer has closed is named, even if nothing reads the output."""
    script = (
        "import socket, typer\n"
        "from kafka_redelivery.cli.command import ReportingGroup\n"
        "app = typer.Typer(cls=ReportingGroup)\n"
        "app.callback()(lambda: None)\n"
        "@app.command()\n"
        "def send():\n"
        "    ours, theirs = socket.socketpair()\n"
        "    theirs.close()\n"
        "    ours.sendall(b'x')\n"
        "app(['send'])"
    )
    done = run_closed(script)
    assert done.returncode == exit_codes.INTERNAL
    assert "internal error: BrokenPipeError" in done.stderr
