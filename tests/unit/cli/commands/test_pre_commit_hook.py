"""The hook for pre-commit checks the configurations of a commit."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from kafka_redelivery.cli.main import app
from kafka_redelivery.topology import exit_codes

MANIFEST = Path(__file__).parents[4] / ".pre-commit-hooks.yaml"
GOOD = "group: billing\nkafka: {bootstrap.servers: x}\nsources: [{topic: orders}]\n"


@pytest.fixture
def hook() -> dict[str, str]:
    """The only hook, which has what pre-commit requires."""
    [found] = yaml.safe_load(MANIFEST.read_text())
    assert found.keys() == {"id", "name", "description", "entry", "language", "files"}
    return {name: str(value) for name, value in found.items()}


def commit(hook: dict[str, str], **texts: str) -> Result:
    """Run the entry with those files of a commit that the hook is for, as pre-commit does."""
    for name, text in texts.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    program, *arguments = shlex.split(hook["entry"])
    assert program == "redelivery"
    return CliRunner().invoke(app, [*arguments, *(name for name in texts if re.search(hook["files"], name))])


def test_several_files(hook: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All faults of all files are reported at once; files of other names are not checked."""
    monkeypatch.chdir(tmp_path)
    good = commit(hook, **{"a/redelivery.yaml": GOOD, "redelivery.yml": GOOD, "values.yaml": "no: configuration"})
    assert (good.exit_code, good.stdout) == (exit_codes.OK, "a/redelivery.yaml: no faults\nredelivery.yml: no faults\n")
    bad = commit(hook, **{"a/redelivery.yaml": GOOD + "mode: fast\n", "redelivery.yml": GOOD + "journal: 5\n"})
    assert (bad.exit_code, bad.stdout) == (exit_codes.CONFIGURATION, "")
    first, *faults = bad.stderr.splitlines()
    assert first == "error: the configuration has 2 faults"
    assert [fault.split()[0] for fault in faults] == ["a/redelivery.yaml:4:7", "redelivery.yml:4:10"]
