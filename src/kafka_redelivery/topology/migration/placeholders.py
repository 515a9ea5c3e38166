"""Replaces ``${name}`` in a broker's configuration, as Spring and Artemis do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

_PLACEHOLDER = re.compile(r"\$\{([^{}]*)\}")
_MAX_ROUNDS = 20
_MAX_NESTED = 1000
MAX_CHARACTERS = 1_000_000
"""How many characters the values of placeholders may add to a text."""

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class PlaceholderValues:
    """The values of placeholders: ``given`` by the user, and the process's ``environment`` if the user wants it."""

    given: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    def for_spring(self, own: Mapping[str, str]) -> dict[str, str]:
        """Return the values, with the file's own properties in precedence over the environment."""
        return {**self.environment, **own, **self.given}

    def for_artemis(self) -> dict[str, str]:
        """Return the values; given ones, which stand for system properties, take precedence over the environment."""
        return {**self.environment, **self.given}


class PlaceholderError(Exception):
    """A text cannot be used because of its placeholders: :attr:`missing` has no value or no name, or it says why."""

    def __init__(self, problem: str, missing: str | None = None) -> None:
        super().__init__(problem)
        self.missing = missing


TOO_LONG = f"grows by more than {MAX_CHARACTERS:,} characters when its placeholders are replaced"


def spring_text(text: str, properties: Mapping[str, str]) -> str:
    """Replace placeholders as Spring does: ``${name}`` and ``${name:default}``.

    Raises:
        PlaceholderError: a placeholder has neither a value nor a default, its value contains it, or the values are too
            long.

    Source: ``PropertyPlaceholderConfigurer``.
    """

    def replacement(found: re.Match[str]) -> str:
        whole = found[1]
        name, colon, default = whole.partition(":")
        if whole in properties:
            return properties[whole]
        if name in properties:
            return properties[name]
        if colon:
            return default
        raise PlaceholderError(f"has a placeholder that cannot be replaced: {name!r}", name)

    found = _replaced(text, replacement)
    rest = _PLACEHOLDER.search(found)
    if rest is not None:
        raise PlaceholderError(
            f"the value of the property {rest[1]} contains the property itself; the broker refuses the file"
        )
    return found


def missing_names(text: str, properties: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of placeholders of Spring that have neither a value nor a default, also in values."""
    waiting, seen = [text], set[str]()
    while waiting:
        for found in _PLACEHOLDER.finditer(waiting.pop()):
            whole = found[1]
            name, colon, _ = whole.partition(":")
            if whole in seen or len(seen) >= _MAX_NESTED:
                continue
            seen.add(whole)
            value = properties.get(whole, properties.get(name))
            if value is not None:
                waiting.append(value)
            elif not colon:
                yield name


def artemis_text(text: str, properties: Mapping[str, str], missing: dict[str, None] | None = None) -> str:
    """Replace placeholders as Artemis does; one without a value becomes empty, and its name is added to ``missing``.

    A placeholder ends at the first ``}`` after its ``${``. Placeholders in values are replaced, too.

    Raises:
        PlaceholderError: a placeholder has no name, or the values nest without end or are too long.

    Source: ``XMLUtil.replaceSystemPropsInString``.
    """
    done: list[str] = []
    position = nested = added = 0
    while (start := text.find("${", position)) >= 0 and (end := text.find("}", start)) >= 0:
        name, colon, default = text[start + 2 : end].strip().partition(":")
        name = name.strip()
        if missing is not None and name not in properties and not colon:
            missing[name] = None
        found = properties.get(name, default.strip())
        nested += "${" in found
        if not name or nested > _MAX_NESTED:
            raise PlaceholderError(f"has a placeholder that cannot be replaced: {name!r}", name)
        added += max(0, len(found) - (end + 1 - start))
        if added > MAX_CHARACTERS:
            raise PlaceholderError(TOO_LONG)
        done.append(text[position:start])
        if "${" in found:
            text, position = found + text[end + 1 :], 0
        else:
            done.append(found)
            position = end + 1
    return "".join(done) + text[position:]


def _replaced(text: str, replacement: Callable[[re.Match[str]], str]) -> str:
    """Replace placeholders in values, too, up to a limit of rounds; circular ones remain."""
    added = 0

    def bounded(found: re.Match[str]) -> str:
        nonlocal added
        value = replacement(found)
        added += max(0, len(value) - len(found[0]))
        if added > MAX_CHARACTERS:
            raise PlaceholderError(TOO_LONG)
        return value

    for _ in range(_MAX_ROUNDS):
        following = _PLACEHOLDER.sub(bounded, text)
        if following == text:
            break
        text = following
    return text


_LINE_ENDS = re.compile(r"\r\n|[\r\n]")
_BLANKS = " \t\f"
_PROPERTY = re.compile(r"((?:\\.|[^=:\\ \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)


def read_properties(text: str) -> dict[str, str]:
    """Parse Java's ``.properties`` format. Blanks at the end of a value belong to it.

    Source: ``java.util.Properties.load``.
    """
    found: dict[str, str] = {}
    lines = iter(_LINE_ENDS.split(text))
    for line in lines:
        piece = line.lstrip(_BLANKS)
        if not piece or piece[0] in "#!":
            continue
        pieces = []
        while (len(piece) - len(piece.rstrip("\\"))) % 2:  # an escaped line end
            pieces.append(piece[:-1])
            piece = next(lines, "").lstrip(_BLANKS)
        pieces.append(piece)
        match = _PROPERTY.fullmatch("".join(pieces))
        if match is not None:
            found[_plain(match[1])] = _plain(match[2])
    return found


def _plain(text: str) -> str:
    return re.sub(
        r"\\(?:u([0-9a-fA-F]{4})|(.))",
        lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPES.get(found[2], found[2]),
        text,
    )
