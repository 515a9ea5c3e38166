"""The options that select dead letters: what they mean, and what is refused before Kafka is asked."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafka_redelivery.cli.commands.dlq_options import Selecting
from kafka_redelivery.cli.main import app
from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.dead_letters.letter import Letter, letter_of
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.policy.fingerprint import kind_of
from kafka_redelivery.topology.wire.headers import failure_cause
from tests.unit.cli.console.consoles import CONFIGURATION


@pytest.mark.parametrize("text", ["2026-11-23T02:00", "2026-11-23T02:00Z", "2026-11-23T03:00+01:00"])
def test_a_time_without_a_zone_is_utc(text: str) -> None:
    """All of these are the same moment."""
    assert Selecting(since=text).selection().since_ms == 1_795_399_200_000


def test_a_duration_is_how_long_ago_it_was() -> None:
    """Counted from now."""
    since_ms = Selecting(since="2h").selection().since_ms
    assert since_ms is not None
    assert 0 <= wall_clock_ms() - 2 * 3_600_000 - since_ms < 10_000


def test_a_file_of_ids(tmp_path: Path) -> None:
    """One in each line; empty lines and a byte order mark do not count."""
    file = tmp_path / "ids"
    for encoding in ("utf-8", "utf-8-sig"):
        file.write_text("DLQ.orders-0@1\n\n  orders-1@2 \n", encoding=encoding)
        assert Selecting(ids_from=file).selection().ids == {"DLQ.orders-0@1", "orders-1@2"}
        with CliRunner().isolation(file.read_bytes()):
            assert Selecting(ids_from=Path("-")).selection().ids == {"DLQ.orders-0@1", "orders-1@2"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--since", "yesterday"],
        ["--until", "1.2.2026"],
        ["--header", "traceparent"],
        ["--ids-from", "no such file"],
        ["--ids-from", "/dev/null"],
        ["--fingerprint", ""],
        ["--fingerprint", "ce9a881322cafbcb", "--fingerprint", "no card"],
        ["--state", "lost"],
        ["--rate", "0"],
        [],
    ],
)
def test_wrong_usage(arguments: list[str]) -> None:
    """It is refused before the configuration is read; without a terminal, so is a missing --yes."""
    assert CliRunner().invoke(app, ["dlq", "redrive", *arguments]).exit_code == exit_codes.USAGE


def test_a_pipe_is_not_imported(tmp_path: Path) -> None:
    """It can be read only once: what the preview has read could not be sent."""
    (tmp_path / "redelivery.yaml").write_text(CONFIGURATION, encoding="utf-8")
    os.mkfifo(tmp_path / "pipe")
    words = ["dlq", "import", str(tmp_path / "pipe"), "--yes", "--config", str(tmp_path / "redelivery.yaml")]
    ended = CliRunner().invoke(app, words)
    assert (ended.exit_code, "write it to one first" in ended.stderr) == (exit_codes.USAGE, True)


def _letter(headers: list[tuple[str, bytes | None]]) -> Letter:
    return letter_of("DLQ.orders", 0, 1, 5, None, headers)


def test_a_letter_of_another_program() -> None:
    """What its headers do not say is empty."""
    for cause in (None, b"\xff", b"[1]", b"{"):
        letter = _letter([("dlqDeliveryFailureCause", cause), ("redrive", b"x")])
        assert (letter.group, letter.reason, letter.mark) == ("", "", None)


def test_a_fingerprint_is_that_of_the_report() -> None:
    """Of the message without its numbers; with ``class-only`` of the class alone. A letter without a cause has none."""
    one, other = (
        _letter([("dlqDeliveryFailureCause", failure_cause("rejected", Failure(FailureKind.RAISED, "E", message)))])
        for message in ("no card 4711", "no card 42")
    )
    assert one.fingerprint == other.fingerprint == kind_of("E", "no card 7", "")[1]
    assert one._replace(class_only=True).fingerprint == kind_of("E", "", "")[1]
    assert _letter([]).fingerprint == ""
