"""``python -m tests.counts [COMMIT]``: how large the product is, and was at a commit (default: the last one).

A number that grows is a question for the review, not an error.
"""

import ast
import io
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
_PACKAGE = "kafka_redelivery"


class Counts(NamedTuple):
    """The size of the product."""

    lines: int
    code: int
    """Lines without docstrings, comments, imports and blank ones."""

    files: int
    one_importer: int
    """Modules that one other module imports: most of them would read better inside it."""


def counts(sources: Mapping[str, str]) -> Counts:
    """Count the modules of a package, by their paths below it."""
    modules = {_module(path): ast.parse(text) for path, text in sources.items()}
    importers = Counter(name for module, tree in modules.items() for name in _imported(tree, modules) - {module})
    lines = sum(len(text.splitlines()) for text in sources.values())
    code = sum(len(_code(tree)) for tree in modules.values())
    packages = {_module(path) for path in sources if path.endswith("__init__.py")}
    single = [name for name, number in importers.items() if number == 1 and name not in packages]
    return Counts(lines, code, len(sources), len(single))


def _module(path: str) -> str:
    return ".".join((_PACKAGE, *Path(path).with_suffix("").parts)).removesuffix(".__init__")


def _imported(tree: ast.Module, modules: Mapping[str, ast.Module]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inside = {f"{node.module}.{each.name}" for each in node.names}
            found |= (inside & modules.keys()) or {node.module}
    return found & modules.keys()


def _code(tree: ast.Module) -> set[int]:
    """Return the numbers of the lines that have code."""
    texts = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    imports = (ast.Import, ast.ImportFrom)
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not isinstance(node, imports):
            if isinstance(node, ast.Expr) and id(node.value) in texts:
                continue
            ends = getattr(node, "body", None)
            last = ends[0].lineno - 1 if isinstance(ends, list) and ends else node.end_lineno or node.lineno
            found |= set(range(node.lineno, max(last, node.lineno) + 1))
    return found


def here() -> dict[str, str]:
    """Return the modules of the checkout."""
    package = ROOT / "src" / _PACKAGE
    return {str(path.relative_to(package)): path.read_text(encoding="utf-8") for path in package.rglob("*.py")}


def at(commit: str) -> dict[str, str]:
    """Return the modules of a commit.

    Raises:
        subprocess.CalledProcessError: there is no such commit, or the package was elsewhere.
    """
    prefix = f"src/{_PACKAGE}/"
    done = subprocess.run(["git", "archive", commit, prefix], cwd=ROOT, capture_output=True, check=True)  # noqa: S607
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        files = {each.name: archive.extractfile(each) for each in archive if each.name.endswith(".py")}
        return {name.removeprefix(prefix): each.read().decode() for name, each in files.items() if each is not None}


def main() -> None:
    """Print both."""
    commit = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    now, before = counts(here()), counts(at(commit))
    for name, number, earlier in zip(Counts._fields, now, before, strict=True):
        change = "" if number == earlier else f" ({number - earlier:+,} since {commit})"
        print(f"{name.replace('_', ' ')}: {number:,}{change}")  # noqa: T201 - its output


if __name__ == "__main__":
    main()
