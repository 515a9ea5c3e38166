"""Changes examples at random: bytes, pieces of other examples, and values inside JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any, Final

_NUMBERS: Final = (0, -1, 1, 2**31, 2**63 - 1, 2**63, 10**30, -(2**63), 0.5, 1e308, float("inf"), float("nan"))
_TEXTS: Final = ("", "\x00", "\ud800", "a" * 5000, "9" * 5000, "\u202e", "true", "-0", "1e400", "\x1b]0;x\x07", "${a}")
_PIECES: Final = (b"\x00", b"\xff\xfe", b"\n", b"'", b'"', b"\\", b"<!--", b"]]>", b"&a;", b"%", b"(" * 300, b"9" * 400)


def mutated(random: Random, examples: Sequence[bytes]) -> bytes:
    """Return an example with one to four changes."""
    found = random.choice(examples)
    if random.random() < 0.4:
        found = _json(random, found)
    for _ in range(random.randint(1, 4)):
        found = _bytes(random, found, examples) if random.random() < 0.7 else found
    return found


def _bytes(random: Random, data: bytes, examples: Sequence[bytes]) -> bytes:
    begin = random.randint(0, len(data))
    end = min(len(data), begin + random.choice((0, 0, 1, 2, 8, 40)))
    match random.randint(0, 3):
        case 0:
            new = random.randbytes(random.randint(0, 4))
        case 1:
            new = random.choice(_PIECES)
        case 2:
            other = random.choice(examples)
            at = random.randint(0, len(other))
            new = other[at : at + random.randint(0, 60)]
        case _:
            new = data[begin:end] * 2
    return data[:begin] + new + data[end:]


def _json(random: Random, data: bytes) -> bytes:
    """Replace a value inside JSON; data that is none stays."""
    try:
        document = json.loads(data)
    except ValueError:
        return data
    return json.dumps(_changed(random, document)).encode()


def _changed(random: Random, value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict) and value and random.random() < 0.9:
        name = random.choice(list(value))
        if random.random() < 0.15:
            return {other: content for other, content in value.items() if other != name}
        return value | {name: _changed(random, value[name])}
    if isinstance(value, list) and value and random.random() < 0.7:
        at = random.randrange(len(value))
        return [*value[:at], _changed(random, value[at]), *value[at + 1 :]]
    return random.choice((random.choice(_NUMBERS), random.choice(_TEXTS), None, True, [], {}, [value], {"a": value}))
