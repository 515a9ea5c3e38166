"""`redelivery pause` and `redelivery resume` write the audit trail after they have done it, and do not wait for it."""

from pathlib import Path
from typing import Never

import pytest
from typer.testing import CliRunner

from kafka_redelivery.cli.main import app
from kafka_redelivery.consumers.errors import ConsumersError
from kafka_redelivery.consumers.operations import pausing
from kafka_redelivery.consumers.operations.pausing import AppliedPauses
from kafka_redelivery.dead_letters import audit
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.transport.errors import WriteAbortedError
from tests.unit.cli.console.consoles import CONFIGURATION


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done, in order. The audit trail cannot be written."""
    found: list[str] = []

    def as_asked(what: str) -> object:
        def act(*_: object, **__: object) -> AppliedPauses:
            found.append(what)
            return AppliedPauses((), 0, {}, 0)

        return act

    def writer(*_: object) -> Never:
        found.append("note")
        raise WriteAbortedError("the broker is gone")

    monkeypatch.setattr(pausing, "pause", as_asked("pause"))
    monkeypatch.setattr(pausing, "resume", as_asked("resume"))
    monkeypatch.setattr(audit, "open_dlq_writer", writer)
    return found


def _run(tmp_path: Path, command: str) -> tuple[int, str]:
    file = tmp_path / "redelivery.yaml"
    file.write_text(CONFIGURATION, encoding="utf-8")
    ended = CliRunner().invoke(app, [command, "--all", "--config", str(file)], env={"COLUMNS": "200"})
    return ended.exit_code, ended.stderr


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_it_does_not_wait_for_the_audit_trail(tmp_path: Path, done: list[str], command: str) -> None:
    """It is done at first; the warning does not say that nothing was done."""
    code, warning = _run(tmp_path, command)
    assert done == [command, "note"]
    assert (code, warning) == (exit_codes.OK, "it is not in the audit trail: the broker is gone\n")


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_what_was_not_done_is_not_in_the_trail(
    tmp_path: Path, done: list[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Such as without the topic of the pauses."""

    def fail(*_: object, **__: object) -> Never:
        raise ConsumersError("there is no topic billing.control")

    monkeypatch.setattr(pausing, command, fail)
    code, problem = _run(tmp_path, command)
    assert code != exit_codes.OK
    assert "there is no topic billing.control" in problem
    assert not done
