"""`redelivery init` writes a service that passes its own tests."""

import json
from functools import cache
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from deploy.validate import compose_faults
from kafka_redelivery.cli.commands import init as init_command
from kafka_redelivery.cli.main import app
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.config.settings import json_schema
from tests.plugin import LOADED

FILES = {"redelivery.yaml", "handlers.py", "test_handlers.py", "compose.yaml", "redelivery.schema.json", ".gitignore"}

schema_of_settings = cache(json_schema)


@pytest.fixture(autouse=True)
def made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """To make the schema takes longer than all else that the command does."""
    monkeypatch.setattr(init_command, "json_schema", schema_of_settings)


def init(folder: Path) -> Result:
    """Run the command."""
    return CliRunner().invoke(app, ["init", str(folder)])


def names(folder: Path) -> set[str]:
    """The files of a folder."""
    return {path.name for path in folder.iterdir()}


def test_what_it_writes(tmp_path: Path) -> None:
    """A folder that did not exist; the group has its name; each file and the next commands are printed."""
    folder = tmp_path / "My billing"
    done = init(folder)
    assert (done.exit_code, names(folder)) == (exit_codes.OK, FILES)
    assert all(f"wrote {folder / name}\n" in done.stdout for name in FILES)
    assert yaml.safe_load((folder / "redelivery.yaml").read_text())["group"] == "My-billing"
    for command in (
        "pip install pytest && python -m pytest",
        "docker compose up --wait",
        "redelivery topology apply && redelivery run",
    ):
        assert f"\n  {command} " in done.stdout


def test_its_configuration_has_no_faults_and_names_its_schema(tmp_path: Path) -> None:
    """The first line is for editors, and leads to the schema of the installed version."""
    init(tmp_path)
    file = tmp_path / "redelivery.yaml"
    checked = CliRunner().invoke(app, ["config", "check", str(file)])
    assert (checked.exit_code, checked.stdout) == (exit_codes.OK, f"{file}: no faults\n")
    first, _, schema = file.read_text().partition("\n")[0].partition("$schema=")
    assert first == "# yaml-language-server: "
    assert json.loads((tmp_path / schema).read_text()) == schema_of_settings()


def test_its_compose_file_follows_the_specification(tmp_path: Path) -> None:
    """It makes the topics of the configuration."""
    init(tmp_path)
    text = (tmp_path / "compose.yaml").read_text()
    assert list(compose_faults(text)) == []
    settings = yaml.safe_load((tmp_path / "redelivery.yaml").read_text())
    topics = [each["topic"] for each in settings["sources"] + settings["outputs"]]
    assert f"for topic in {' '.join(topics)};" in text


def test_its_tests_pass(pytester: pytest.Pytester) -> None:
    """As a user runs them."""
    init(pytester.path)
    result = pytester.runpytest_inprocess(*LOADED)
    result.assert_outcomes(passed=3)


@pytest.mark.parametrize("taken", sorted(FILES - {".gitignore"}))
def test_it_overwrites_nothing(tmp_path: Path, taken: str) -> None:
    """It names what is there, and writes no other file."""
    (tmp_path / taken).write_text("mine")
    done = init(tmp_path)
    assert done.exit_code == exit_codes.USAGE
    assert f"{taken} exist" in " ".join(done.stderr.replace("\u2502", " ").split())
    assert (names(tmp_path), (tmp_path / taken).read_text()) == ({taken}, "mine")


def test_a_gitignore_stays_and_a_file_is_no_folder(tmp_path: Path) -> None:
    """The service is written beside an existing .gitignore."""
    (tmp_path / ".gitignore").write_text("mine")
    assert init(tmp_path).exit_code == exit_codes.OK
    assert (tmp_path / ".gitignore").read_text() == "mine"
    assert init(tmp_path / ".gitignore").exit_code == exit_codes.USAGE


@pytest.mark.parametrize("name", ["...", "täglich"])
def test_the_name_of_a_group_is_legal(tmp_path: Path, name: str) -> None:
    """Whatever the folder is called."""
    folder = tmp_path / name
    init(folder)
    assert CliRunner().invoke(app, ["config", "check", str(folder / "redelivery.yaml")]).exit_code == exit_codes.OK
