"""A pytest plugin that chooses tests: the crash tests and the long tests, or all others, and those without containers.

The crash tests and the long tests have parts: `./dev test --crash --part 2/5`. Each has one subject, and is meant to
end within 40 minutes on two cores.
"""

import ast
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.areas import draws_less
from tests.rare import is_rare, lost_choices

_IMAGES_S = 600
"""Time-out of a test with containers, in seconds; the first one builds the images."""

_SPARK_S = 900
"""Time-out of a test with Spark. After a time-out all later tests of the process fail, because the answer to the call
that it interrupts is read as that to the next call; so it is long."""


@dataclass(frozen=True, slots=True)
class Part:
    """Tests whose node ids begin with one of ``places``, and what they prove together."""

    proves: str
    places: tuple[str, ...]


_SEEDS: Final = 2
"""With so many seeds every run repeats a test that draws random numbers, except one of the quick tests alone; with
``--long`` it has the others."""

_REST: Final = ("",)

PARTS: Final = {
    "crash": (
        Part("a worker may die at any step", ("tests/crash/test_kill_points.py::test_death_at[worker",)),
        Part("a scheduler may die at any step", ("tests/crash/test_kill_points.py",)),
        Part("nodes, coordinators and disks of the cluster may fail", ("tests/crash/brokers/",)),
        Part(
            "whatever sends, edits, imports, indexes or removes dead letters may die at any step",
            (
                "tests/crash/test_dead_letter_index.py",
                "tests/crash/test_import.py",
                "tests/crash/test_redrive",
                "tests/crash/test_sweeper.py",
            ),
        ),
        Part("outages, unknown outcomes, zombies, rebalances and topics that were created again", _REST),
    ),
    "long": (
        Part(
            "rare cases of worker, scheduler and topics",
            ("tests/scenarios/worker/", "tests/scenarios/scheduler/", "tests/scenarios/topology/"),
        ),
        Part("rare cases of dead letters, rights, secrets and operations; the demo", ("tests/scenarios/",)),
        Part("rare cases of the Spark query", ("tests/pipeline/test_stream", "tests/pipeline/test_demo")),
        Part("rare cases of the Spark jobs, and Spark on a cluster", ("tests/pipeline/",)),
        Part("all views of the console, hostile letters, and everything else", _REST),
    ),
}
"""For each option its parts. A test belongs to the first part that has its place."""

_STARTED: Final = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addoption(
        "--crash", action="store_true", help="run all crash tests and nothing else; without it, a sample of them"
    )
    parser.addoption("--long", action="store_true", help="run the long tests of rare cases and nothing else")
    parser.addoption(
        "--no-containers", action="store_true", help="deselect the tests that need a container engine; refused in CI"
    )
    parser.addoption("--part", metavar="N/M", help="with --crash or --long: run one of its parts")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse ``--no-containers`` in CI."""
    if config.getoption("no_containers") and os.environ.get("CI"):
        raise pytest.UsageError("--no-containers is not allowed while CI is set, since CI must run every test")


def chosen(config: pytest.Config) -> tuple[str, int] | None:
    """Return the option and the index of the part that are wanted, or ``None`` without ``--part``.

    Raises:
        pytest.UsageError: There is no such part, or ``--part`` is given without one of the two options.
    """
    wanted = config.getoption("part")
    if wanted is None:
        return None
    kinds = [kind for kind in PARTS if config.getoption(kind)]
    if len(kinds) != 1:
        raise pytest.UsageError("--part needs one of --crash and --long")
    names = [f"{number}/{len(PARTS[kinds[0]])}" for number in range(1, len(PARTS[kinds[0]]) + 1)]
    if wanted not in names:
        raise pytest.UsageError(f"--part {wanted}: --{kinds[0]} has the parts {', '.join(names)}")
    return kinds[0], names.index(wanted)


def part_of(kind: str, nodeid: str) -> int:
    """Return the index of the part to which a test belongs."""
    return next(index for index, part in enumerate(PARTS[kind]) if nodeid.startswith(part.places))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by the fixtures that they use, and deselect the ones that the options exclude."""
    seeds = 1 if draws_less(config) else _SEEDS
    for item in items:
        if "kafka" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.kafka)
        if "client" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.containers)
            item.add_marker(pytest.mark.timeout(_IMAGES_S))
        if item.get_closest_marker("spark") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_SPARK_S))
        if is_rare(*_parts(item)) or _seed(item) >= seeds:
            item.add_marker(pytest.mark.full if item.get_closest_marker("crash") else pytest.mark.long)
    if config.args == ["tests"] and (lost := lost_choices({_parts(item) for item in items})):
        raise pytest.UsageError(f"tests/rare.py keeps what does not exist: {lost}")
    part = chosen(config)
    wanted: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        (wanted if _is_wanted(item, config, part) else others).append(item)
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = wanted


def _seed(item: pytest.Item) -> int:
    """Return the parameter ``seed`` of a test that repeats itself with other random numbers; 0 if it has none."""
    call = getattr(item, "callspec", None)
    return int(call.params.get("seed", 0)) if call else 0


def _parts(item: pytest.Item) -> tuple[str, str, str]:
    """Return file, function and parameters of a test."""
    path, _, name = item.nodeid.partition("::")
    function, _, parameters = name.partition("[")
    return path, function, parameters.removesuffix("]")


def _is_wanted(item: pytest.Item, config: pytest.Config, part: tuple[str, int] | None) -> bool:
    if config.getoption("no_containers") and item.get_closest_marker("containers"):
        return False
    if part and part_of(part[0], item.nodeid) != part[1]:
        return False
    crash, long = item.get_closest_marker("crash"), item.get_closest_marker("long")
    if not config.getoption("crash") and not config.getoption("long"):
        return not long and not item.get_closest_marker("full")
    return bool(config.getoption("long") if long else crash and config.getoption("crash"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say in one line what the part has shown, after the promise of each of its files."""
    part = chosen(config)
    if part is None:
        return
    kind, index = part
    outcomes = {name: terminalreporter.stats.get(name, []) for name in ("passed", "failed", "error")}
    of_files: dict[str, Counter[str]] = {}
    for name, reports in outcomes.items():
        for report in reports:
            of_files.setdefault(report.nodeid.partition("::")[0], Counter())[name] += 1
    terminalreporter.section(f"--{kind} --part {index + 1}/{len(PARTS[kind])}")
    for path, counts in sorted(of_files.items()):
        said = ", ".join(f"{count} {name}" for name, count in counts.items())
        terminalreporter.write_line(f"{said:>12}  {_promise(Path(config.rootpath, path))}")
    failed = len(outcomes["failed"]) + len(outcomes["error"])
    verdict = f"{failed} failed, not proven" if failed else "proven"
    minutes = (time.monotonic() - _STARTED) / 60
    terminalreporter.write_line(
        f"{verdict}: {PARTS[kind][index].proves} ({len(outcomes['passed'])} passed, {minutes:.0f} min)",
        red=bool(failed),
        green=not failed,
    )


def _promise(path: Path) -> str:
    """Return the first line of a test module, which states its promise."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or path.name).partition("\n")[0]
