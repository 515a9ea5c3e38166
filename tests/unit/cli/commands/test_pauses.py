"""`redelivery pause` and `redelivery resume` write the audit trail as soon as they have done it, before they wait."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Never

import pytest
from typer.testing import CliRunner, Result

from kafka_redelivery.cli.main import app
from kafka_redelivery.consumers.operations import pausing
from kafka_redelivery.dead_letters import audit
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.wire.pauses import Applied, Pause, Pauses, PauseScope, PauseTarget, ProcessName
from kafka_redelivery.transport.admin.errors import AdminError
from kafka_redelivery.transport.errors import WriteAbortedError
from kafka_redelivery.transport.protocols import ProducerRecord
from tests.unit.cli.console.consoles import CONFIGURATION
from tests.unit.consumers.records import NOW

GROUP = PauseTarget(PauseScope.GROUP)
W1 = ProcessName("worker", "w1")
PAUSED = Pauses(MappingProxyType({GROUP: Pause(GROUP, NOW, None)}), end=1)


class Kafka:
    """A control topic and an audit trail. No process runs."""

    def __init__(self) -> None:
        self.before = PAUSED
        self.done: list[str] = []
        """What was written, in order, and what was asked."""

        self.notes: list[dict[str, object]] = []
        self.refusal: BaseException | None = None
        """What is raised when a note is written."""

        self.silence: BaseException | None = None
        """What is raised when the owners of partitions are asked for."""

        self.workers: dict[str, list[object]] = {}
        self.hidden = False
        """Whether the transaction of another process keeps readers from what is written."""

    def append(self, *_: object) -> int:
        """Write to the control topic."""
        self.done.append("control")
        return self.before.end + 1

    def owners(self, *_: object) -> dict[str, dict[str, list[object]]]:
        """The processes of the group."""
        self.done.append("owners")
        if self.silence is not None:
            raise self.silence
        return {"billing": self.workers, "billing.scheduler": {}}

    # The reader of the control topic.

    def exists(self) -> bool:
        """Whether there is one."""
        return self.before.end > 0

    def read_to_end(self) -> Pauses:
        """What it says at first."""
        return self.before

    def poll(self, _: float) -> Pauses:
        """What it says later."""
        return self.before if self.hidden else Pauses(end=self.before.end + 1)

    # The writer of the audit trail.

    def write(self, records: Sequence[ProducerRecord], _: object) -> None:
        """Write a note."""
        self.done.append("note")
        if self.refusal is not None:
            raise self.refusal
        self.notes += [json.loads(each.value or b"") for each in records]

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    """The Kafka of both commands, at a time."""
    found = Kafka()
    monkeypatch.setattr(pausing, "control_tail", lambda *_, **__: found)
    monkeypatch.setattr(pausing, "append_control", found.append)
    monkeypatch.setattr(pausing, "owners_of", found.owners)
    monkeypatch.setattr(pausing, "wall_clock_ms", lambda: NOW)
    monkeypatch.setattr(audit, "open_dlq_writer", lambda *_: found)
    return found


def _run(tmp_path: Path, command: str, *options: str) -> Result:
    file = tmp_path / "redelivery.yaml"
    file.write_text(CONFIGURATION, encoding="utf-8")
    words = [command, "--all", "--note", "the bank is away", "--config", str(file), *options]
    return CliRunner().invoke(app, words, env={"COLUMNS": "200"})


@pytest.mark.parametrize("command", ["pause", "resume"])
@pytest.mark.parametrize("silence", [None, KeyboardInterrupt(), AdminError("list members", "no answer in 30 s")])
def test_what_was_done_is_in_the_trail(
    tmp_path: Path, kafka: Kafka, command: str, silence: BaseException | None
) -> None:
    """At the time at which it was done, also if the wait for the processes ends at once."""
    kafka.silence = silence
    ended = _run(tmp_path, command)
    assert (ended.exit_code == exit_codes.OK) == (silence is None)
    assert kafka.done == ["control", "note", "owners"]
    [note] = kafka.notes
    said = (note["what"], note["about"], note["note"], note["atMs"])
    assert said == (command, "group" if command == "pause" else "everything", "the bank is away", NOW)


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_it_does_not_need_the_audit_trail(tmp_path: Path, kafka: Kafka, command: str) -> None:
    """It is done, and it waits for the processes; the warning does not say that nothing was done."""
    kafka.refusal = WriteAbortedError("the broker is gone")
    ended = _run(tmp_path, command)
    assert kafka.done == ["control", "note", "owners"]
    assert (ended.exit_code, ended.stderr) == (exit_codes.OK, "it is not in the audit trail: the broker is gone\n")


def test_an_interrupted_note(tmp_path: Path, kafka: Kafka) -> None:
    """It may be written or not."""
    kafka.refusal = KeyboardInterrupt()
    ended = _run(tmp_path, "pause")
    assert ended.exit_code != exit_codes.OK
    assert "it may not be in the audit trail" in ended.stderr


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_what_was_not_done_is_not_in_the_trail(
    tmp_path: Path, kafka: Kafka, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Without the topic of the pauses, and if Kafka does not take the records."""

    def refuse(*_: object) -> Never:
        raise AdminError("write to billing.control", "no answer")

    kafka.before = Pauses()
    ended = _run(tmp_path, command)
    assert ended.exit_code != exit_codes.OK
    assert "there is no topic billing.control, in which pauses are kept, or it may not be described" in ended.stderr

    kafka.before = PAUSED
    monkeypatch.setattr(pausing, "append_control", refuse)
    ended = _run(tmp_path, command)
    assert ended.exit_code != exit_codes.OK
    assert "write to billing.control" in ended.stderr
    assert not kafka.done


def test_a_pause_that_no_process_can_see_yet(tmp_path: Path, kafka: Kafka) -> None:
    """It is written and holds. That no process obeys it is no success, whether or not there was a pause before."""
    kafka.hidden, kafka.workers = True, {"w1": []}
    for before in (Pauses(MappingProxyType({}), MappingProxyType({W1: Applied(1, NOW)}), end=1), PAUSED):
        kafka.before = before
        ended = _run(tmp_path, "pause", "--wait", "0s")
        assert ended.exit_code == exit_codes.FAILED
        assert "paused: group, by " in ended.stdout
        assert "1 of 1 processes do not obey yet" in ended.stderr
    ended = _run(tmp_path, "resume", "--wait", "0s")
    assert (ended.exit_code, ended.stdout) == (exit_codes.FAILED, "nothing is paused\n")


def test_a_resume_without_a_pause(tmp_path: Path, kafka: Kafka) -> None:
    """It does nothing, so nothing is noted."""
    kafka.before = Pauses(end=1)
    assert _run(tmp_path, "resume").exit_code == exit_codes.OK
    assert kafka.done == ["owners"]
