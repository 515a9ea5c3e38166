"""Commands, options, settings and public imports that the documentation names exist."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from pydantic import BaseModel

from kafka_redelivery.cli.main import app
from kafka_redelivery.topology.config.settings import Settings
from tests.every import every

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
TEXTS = [(page, page.read_text(encoding="utf-8")) for page in PAGES]
_COMMAND = re.compile(r"(?:^|[`$ (])redelivery ([a-z-]+(?: [^`\n|;&>#()]*)?)", re.MULTILINE)
_IMPORT = re.compile(r"^from (kafka_redelivery[\w.]*) import ([\w, ]+)$", re.MULTILINE)
_SETTING = re.compile(r"`((?!activemq\.)[a-z]\w*(?:\.(?!yaml`)[a-zA-Z]\w*)+)`")


def name(page: Path, found: str) -> str:
    """A name of a case for messages."""
    return f"{page.relative_to(ROOT)}: {found}"


def in_code(text: str) -> str:
    """The code of a page: spans and blocks, one on each line."""
    blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    rest = re.sub(r"^ *```\w*\n.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    indented = re.findall(r"^ {4,}(?:\$ )?(redelivery .*|\./dev redelivery .*)$", rest, re.MULTILINE)
    return "\n".join([*blocks, *indented, *(f"`{span}`" for span in re.findall(r"`([^`\n]+)`", rest))])


def written(pattern: re.Pattern[str]) -> list[tuple[Path, str]]:
    """What the code of all pages has of a pattern, each once for a page."""
    return [(page, each) for page, text in TEXTS for each in sorted({*map(str.strip, pattern.findall(in_code(text)))})]


@every(written(_COMMAND), name)
def test_a_command_and_its_options(page: Path, found: str) -> None:
    """Each word up to the first option is a command or an argument, and each option is one of that command."""
    command: Any = typer.main.get_command(app)
    options = {option for each in command.params for option in each.opts}
    words = found.split()
    while words and hasattr(command, "commands"):
        if words[0].startswith("-"):
            assert words[0].partition("=")[0] in options, page
            words = words[2:] if not words[0].startswith("--no-") else words[1:]
            continue
        if not re.fullmatch(r"[a-z-]+", words[0]):
            return  # COMMAND, or the end of a sentence
        command = command.commands[words.pop(0)]
        options |= {option for each in command.params for option in each.opts + each.secondary_opts}
    assert {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)} <= options | {"--help"}, page


def fields(annotation: object) -> Iterator[type[BaseModel]]:
    """The sections that a field may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from fields(each)


def exists(section: type[BaseModel], path: list[str]) -> bool:
    """Whether a section has a setting."""
    if not path:
        return True
    found = next((each for key, each in section.model_fields.items() if path[0] in {each.alias, key}), None)
    if found is None:
        return False
    inner = list(fields(found.annotation))
    return not inner or any(exists(each, path[1:]) for each in inner)


@every(
    [
        (page, found)
        for page, found in written(_SETTING)
        if found.split(".")[0] in {f.alias for f in Settings.model_fields.values()}
    ],
    name,
)
def test_a_setting(page: Path, found: str) -> None:
    """A name with dots whose first part is a section of the file."""
    assert exists(Settings, found.split(".")), page


@every(
    [(page, *each) for page, text in TEXTS for each in _IMPORT.findall(text)],
    lambda page, *found: name(page, str(found)),
)
def test_an_import(page: Path, module: str, names: str) -> None:
    """Of a module of ours, in a block of Python."""
    imported = import_module(module)
    for each in names.split(","):
        assert hasattr(imported, each.strip()), page


@pytest.mark.parametrize("found", ["dlq lost", "status --loud"])
def test_a_wrong_command_is_found(found: str) -> None:
    """The checks can fail."""
    with pytest.raises((AssertionError, KeyError)):
        test_a_command_and_its_options.check(ROOT, found)  # type: ignore[attr-defined]


def test_there_is_much_to_find() -> None:
    """The patterns find what the pages have."""
    assert len(written(_COMMAND)) > 100
    assert len(written(_SETTING)) > 50
