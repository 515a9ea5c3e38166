"""`redelivery config`, without a cluster."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from cli import exit_codes
from cli.main import app
from topology.settings import json_schema

GOOD = "group: billing\nkafka: {bootstrap.servers: x, sasl.password: hunter2}\nsources: [{topic: orders}]\n"
BAD = GOOD + "mode: fast\njournal: 5\n"


@pytest.fixture(autouse=True)
def _in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has its own folder and no variables of ours."""
    monkeypatch.chdir(tmp_path)
    for name in ("REDELIVERY_CONFIG", "REDELIVERY_DEBUG"):
        monkeypatch.delenv(name, raising=False)


def run(*arguments: str, text: str | None = None) -> Result:
    """Run the command on a ``redelivery.yaml`` with this text."""
    if text is not None:
        Path("redelivery.yaml").write_text(text, encoding="utf-8")
    return CliRunner().invoke(app, arguments)


def test_check_of_a_good_file() -> None:
    """One line, exit code 0."""
    result = run("config", "check", text=GOOD)
    assert (result.exit_code, result.stdout, result.stderr) == (exit_codes.OK, "redelivery.yaml: no faults\n", "")


def test_check_of_a_bad_file() -> None:
    """Each fault on its own line of standard error, nothing on standard output, no traceback."""
    result = run("config", "check", text=BAD)
    assert result.exit_code == exit_codes.CONFIGURATION
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[0] == "error: the configuration has 2 faults"
    assert [line.split()[:2] for line in lines[1:]] == [
        ["redelivery.yaml:4:7", "mode:"],
        ["redelivery.yaml:5:10", "journal:"],
    ]


def test_check_as_json() -> None:
    """One object, the same exit codes."""
    good, bad = run("config", "check", "--json", text=GOOD), run("config", "check", "--json", text=BAD)
    assert (good.exit_code, json.loads(good.stdout)) == (exit_codes.OK, {"ok": True, "faults": [], "warnings": []})
    assert bad.exit_code == exit_codes.CONFIGURATION
    found = json.loads(bad.stdout)
    assert (found["ok"], found["error"], found["message"]) == (False, "configuration", "the configuration has 2 faults")
    assert bad.stderr == ""
    assert [set(fault) for fault in found["faults"]] == [{"place", "problem", "mend"}] * 2


def test_flags_and_variables_reach_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """``show`` prints what counts in the end: flag above variable above file."""
    monkeypatch.setenv("REDELIVERY_LIMITS__BATCH", "10")
    monkeypatch.setenv("REDELIVERY_MODE", "auto")
    result = run("config", "show", "--set", "limits.batch=20", text=GOOD)
    shown = yaml.safe_load(result.stdout)
    assert (shown["limits"]["batch"], shown["mode"], shown["group"]) == (20, "auto", "billing")


def test_show_hides_secrets() -> None:
    """In YAML and in JSON."""
    for flags in ([], ["--json"]):
        result = run("config", "show", *flags, text=GOOD)
        assert result.exit_code == exit_codes.OK
        assert "hunter2" not in result.output


def test_what_show_prints_is_a_configuration() -> None:
    """It could be used as a file again."""
    shown = run("config", "show", text=GOOD).stdout
    assert run("config", "check", text=shown).exit_code == exit_codes.OK


def test_schema() -> None:
    """The JSON Schema and nothing else."""
    assert json.loads(run("config", "schema").stdout) == json_schema()


def test_the_file_may_be_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """``REDELIVERY_CONFIG`` is the default of ``--config``."""
    Path("other.yaml").write_text(GOOD, encoding="utf-8")
    monkeypatch.setenv("REDELIVERY_CONFIG", "other.yaml")
    assert run("config", "check").stdout == "other.yaml: no faults\n"


@pytest.mark.parametrize("kind", ["missing", "folder", "bytes"])
def test_a_file_that_cannot_be_read(kind: str) -> None:
    """One fault that names the file."""
    if kind == "folder":
        Path("f.yaml").mkdir()
    if kind == "bytes":
        Path("f.yaml").write_bytes(b"group: \xff\xfe")
    result = run("config", "check", "--config", "f.yaml")
    assert result.exit_code == exit_codes.CONFIGURATION
    assert result.stderr.splitlines()[0] == "error: the configuration has 1 fault"
    assert result.stderr.splitlines()[1].startswith("  f.yaml: ")
    assert len(result.stderr.splitlines()) == 2
