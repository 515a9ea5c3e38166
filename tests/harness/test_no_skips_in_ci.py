import pytest

_MODULE = """
import pytest

def test_that_passes():
    pass

@pytest.mark.skip(reason="not today")
def test_that_is_skipped():
    pass
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with our plugin and one skipped test."""
    pytester.makeconftest("pytest_plugins = ['tests.no_skips']")
    pytester.makepyfile(_MODULE)
    return pytester


def test_a_skipped_test_fails_the_session_in_ci(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """With CI set, a session with a skipped test fails and names it."""
    monkeypatch.setenv("CI", "true")

    result = project.runpytest_inprocess()

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["1 skipped: with CI set a skipped test is a failure", "*::test_that_is_skipped"])


def test_a_module_skipped_as_a_whole_counts_too(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """With CI set, a module that skips itself while it is collected fails the session as well."""
    monkeypatch.setenv("CI", "true")
    project.makepyfile(test_other="import pytest\npytest.importorskip('no_such_module')")

    result = project.runpytest_inprocess("test_other.py")

    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_elsewhere_a_skipped_test_is_only_reported(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without CI, a skipped test does no harm."""
    monkeypatch.delenv("CI", raising=False)

    assert project.runpytest_inprocess().ret == pytest.ExitCode.OK
