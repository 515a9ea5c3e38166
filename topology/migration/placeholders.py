"""``${name}`` in a broker's configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PLACEHOLDER = re.compile(r"\$\{([^{}]*)\}")
_MOST_ROUNDS = 20
_MOST_NESTED = 1000
_MOST_CHARACTERS = 1_000_000
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


class UnresolvedError(Exception):
    """A placeholder has no value that could be used; ``name`` is what it asks for."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class CircularError(Exception):
    """The value of a placeholder holds the placeholder itself; ``name`` is what it asks for."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def spring_text(text: str, properties: Mapping[str, str]) -> str:
    """A text with Spring's placeholders replaced, defaults behind a colon included.

    Raises:
        UnresolvedError: one has neither a value nor a default.
        CircularError: one holds itself.

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
        raise UnresolvedError(name)

    found = _replaced(text, replacement)
    rest = _PLACEHOLDER.search(found)
    if rest is not None:
        raise CircularError(rest[1])
    return found


def artemis_text(text: str, properties: Mapping[str, str]) -> str:
    """A text with Artemis's placeholders replaced; one without a value becomes empty.

    A placeholder goes from ``${`` to the next ``}``, whatever is between. What a value brings along is
    replaced, too.

    Raises:
        UnresolvedError: one has no name, or they never come to an end.

    Source: ``XMLUtil.replaceSystemPropsInString``.
    """
    done: list[str] = []
    place = nested = 0
    while (start := text.find("${", place)) >= 0 and (end := text.find("}", start)) >= 0:
        name, _, default = text[start + 2 : end].strip().partition(":")
        name = name.strip()
        found = properties.get(name, default.strip())
        nested += "${" in found
        if not name or nested > _MOST_NESTED:
            raise UnresolvedError(name)
        done.append(text[place:start])
        if "${" in found:
            text, place = found + text[end + 1 :], 0
        else:
            done.append(found)
            place = end + 1
    return "".join(done) + text[place:]


def _replaced(text: str, replacement: object) -> str:
    """Values may hold placeholders themselves; one that holds itself is left alone in the end."""
    for _ in range(_MOST_ROUNDS):
        following = _PLACEHOLDER.sub(replacement, text)  # type: ignore[call-overload]
        if following == text or len(following) > _MOST_CHARACTERS:
            break
        text = following
    return str(text)


def read_properties(text: str) -> dict[str, str]:
    """Java's ``.properties`` format, as it stands in a configurer's value."""
    found: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        logical = line.strip()
        if not logical or logical[0] in "#!":
            continue
        while logical.endswith("\\") and not logical.endswith("\\\\"):
            logical = logical[:-1] + next(lines, "").strip()
        match = re.match(r"((?:\\.|[^=:\s\\])*)\s*[=:]?\s*(.*)", logical)
        if match is not None:
            found[_plain(match[1])] = _plain(match[2])
    return found


def _plain(text: str) -> str:
    return re.sub(
        r"\\(?:u([0-9a-fA-F]{4})|(.))",
        lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPES.get(found[2], found[2]),
        text,
    )
