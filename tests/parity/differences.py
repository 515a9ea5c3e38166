"""The recorded cases that end differently here on purpose: the table in docs/migration.md."""

import re
from functools import cache
from pathlib import Path

_PAGE = Path(__file__).parents[2] / "docs" / "migration.md"
_ROW = re.compile(r"^\| `([a-z0-9-]+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


@cache
def differences() -> dict[str, str]:
    """The cases, with the reason why Kafka cannot do the same or why we do not want to."""
    return {case: reason.strip() for case, _, reason in _ROW.findall(_PAGE.read_text(encoding="utf-8"))}
