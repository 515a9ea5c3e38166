"""The paths of `->>`: names and array indexes from the root of a JSON text."""

from __future__ import annotations

import re
from typing import Final

_STEP: Final = re.compile(
    r"""
    \.(?P<plain>[^\W\d][\w-]*)          # .name
    | \."(?P<quoted>[^"\\*\x00-\x1f]+)"   # ."any name"
    | \['(?P<bracket>[^'"\\*\x00-\x1f]+)'\]  # ['any name']
    | \[(?P<index>[0-9]{1,9})\]          # [0]
    """,
    re.VERBOSE,
)


def canonical_path(text: str) -> str | None:
    """Return a path with all names quoted, ``None`` if it is not one of names and indexes."""
    if not text.startswith("$"):
        return None
    steps, position = ["$"], 1
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None:
            return None
        index, name = step["index"], step["plain"] or step["quoted"] or step["bracket"]
        steps.append(f'."{name}"' if index is None else f"[{int(index)}]")
        position = step.end()
    return "".join(steps)
