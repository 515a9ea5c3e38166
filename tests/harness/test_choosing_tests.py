"""`./dev test` and `./dev verify` run the tests that they name."""

import json
from pathlib import Path

import pytest

from tests.__main__ import _verify, runs
from tests.areas import AREAS, QUICK
from tests.choosing import PARTS, part_of

ROOT = Path(__file__).parents[2]
IN_NO_AREA = ("tests/crash/", "tests/fuzz/", "tests/activemq/")


def files() -> list[str]:
    """All test files of the repository."""
    return [
        str(path.relative_to(ROOT)) for folder in ("tests", "examples") for path in ROOT.glob(f"{folder}/**/test_*.py")
    ]


def places(arguments: list[str]) -> list[str]:
    """The paths among the arguments of pytest."""
    return [argument for argument in arguments if not argument.startswith("-")]


def test_without_an_area_the_quick_tests_run() -> None:
    """On as many processes as there are cores in the smallest machine that counts."""
    assert runs("test", ["-x"]) == [["--numprocesses=2", "--dist=loadfile", "-x", *QUICK]]


def test_an_area_is_what_its_folders_hold() -> None:
    """Areas and paths can be combined, and arguments of pytest stay as they are."""
    (only,) = runs("test", ["scheduler", "tests/unit/docs", "-k", "due"])
    assert only[2:] == [
        *("-k", "due"),
        *AREAS["scheduler"],
        "tests/unit/docs",
    ]


def test_verify_runs_everything() -> None:
    """The quick tests first, with more examples. It gives up after five failures, and says which tests take long."""
    quick, others = runs("verify", [])
    assert quick[2:] == ["--hypothesis-profile=usual", "--maxfail=5", *QUICK]
    assert others[2:] == ["--durations=20", "--ignore=tests/unit", "--ignore=tests/parity", "--maxfail=5", "tests"]


@pytest.mark.parametrize("kind", PARTS)
def test_rare_tests_are_looked_for_everywhere(kind: str) -> None:
    """Also outside the folder that is named like the option."""
    (only,) = runs("test", [f"--{kind}"])
    assert places(only) == ["tests"]


def test_every_test_is_quick_or_belongs_to_an_area() -> None:
    """Of the others, which take long, CONTRIBUTING.md says when to run them."""
    found = [*QUICK, *(place for area in AREAS.values() for place in area)]
    assert [path for path in files() if not path.startswith((*found, *IN_NO_AREA))] == []
    assert [place for place in found if not (ROOT / place).exists()] == []


@pytest.mark.parametrize("kind", PARTS)
def test_every_part_has_tests(kind: str) -> None:
    """Each name of a part is the beginning of some file, and each file belongs to one part."""
    for index, part in enumerate(PARTS[kind]):
        for place in part.places:
            assert any(
                path.startswith(place.partition("::")[0]) and part_of(kind, path + place.partition(".py")[2]) == index
                for path in files()
            )


def test_every_run_has_two_seeds(pytester: pytest.Pytester) -> None:
    """The others are left to the long tests."""
    pytester.makeconftest("pytest_plugins = ['tests.choosing']")
    pytester.makeini("[pytest]\nmarkers = long\n")
    pytester.makepyfile("import pytest\n@pytest.mark.parametrize('seed', range(5))\ndef test_it(seed): pass")
    pytester.runpytest_inprocess().assert_outcomes(passed=2, deselected=3)
    pytester.runpytest_inprocess("--long").assert_outcomes(passed=3, deselected=2)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--crash", "--part", "9/9"], "--crash has the parts 1/5, 2/5, 3/5, 4/5, 5/5"),
        (["--part", "1/5"], "--part needs one of --crash and --long"),
    ],
)
def test_a_part_that_does_not_exist_is_refused(pytester: pytest.Pytester, arguments: list[str], told: str) -> None:
    """And the error lists the parts."""
    pytester.makeconftest("pytest_plugins = ['tests.choosing']")
    pytester.makepyfile("def test_nothing(): pass")
    result = pytester.runpytest_inprocess(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{told}*"])


@pytest.mark.parametrize(
    ("failed", "alone", "code"),
    [(["a"], 0, 0), (["a", "b"], 0, 0), (["a"], 1, 1), (["a", "b", "c"], 0, 1), ([], 0, 1)],
)
def test_few_failures_run_once_more_alone(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    failed: list[str],
    alone: int,
    code: int,
) -> None:
    """One or two, which are listed. More are no accident, and a run can also fail without a failed test."""
    record, runs_of_pytest = tmp_path / "lastfailed", []

    def run(arguments: list[str]) -> int:
        runs_of_pytest.append(arguments)
        if len(runs_of_pytest) > 1:
            return alone
        record.write_text(json.dumps(dict.fromkeys(failed, True)), encoding="utf-8")
        return 1

    monkeypatch.setattr("tests.__main__._FAILED", record)
    monkeypatch.setattr("tests.__main__._pytest", run)
    assert _verify(["tests"]) == code
    again = [["--numprocesses=0", *failed]] if len(failed) in {1, 2} else []
    assert runs_of_pytest == [["tests"], *again]
    assert ("UNSTEADY" in capsys.readouterr().out) is (code == 0)
