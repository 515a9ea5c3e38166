"""Without a container engine, tests that need one fail with the fix, and are left out only where that is allowed."""

from pathlib import Path

import pytest

from tests.containers.engine import EngineMissingError, engine


@pytest.fixture
def _no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither an engine that answers nor a program that would start one."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("_no_engine")
def test_the_error_names_the_mend() -> None:
    """How to get an engine, and how to do without."""
    with (
        pytest.raises(EngineMissingError, match=r"`./dev doctor --install` as root.*`./dev verify --no-containers`"),
        engine(),
    ):
        pass


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with our plugin, and two tests of which one needs an engine."""
    pytester.makeconftest("pytest_plugins = ['tests.choosing']")
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def client():
            raise AssertionError("no engine")

        def test_with_a_container(client):
            pass

        def test_without():
            pass
        """
    )
    names = ("kafka", "containers", "crash", "full", "timeout(s)")
    markers = "".join(f"\n {name}: of ours" for name in names)
    pytester.makeini(f"[pytest]\nmarkers ={markers}")
    return pytester


def test_they_can_be_left_out(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--no-containers`` deselects them: nothing is skipped, nothing fails."""
    monkeypatch.delenv("CI", raising=False)
    project.runpytest_inprocess("--no-containers").assert_outcomes(passed=1, deselected=1)


def test_in_ci_they_cannot(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """There the option is refused, and without an engine the test fails."""
    monkeypatch.setenv("CI", "true")
    assert project.runpytest_inprocess("--no-containers").ret == pytest.ExitCode.USAGE_ERROR
    project.runpytest_inprocess().assert_outcomes(passed=1, errors=1)
