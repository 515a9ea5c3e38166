"""The recorded cases whose outcome differs from ActiveMQ's by design: the table in docs/migration.md."""

import re
from functools import cache
from pathlib import Path

_PAGE = Path(__file__).parents[2] / "docs" / "migration.md"
_ROW = re.compile(r"^\| `([a-z0-9-]+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


@cache
def differences() -> dict[str, str]:
    """Return by case the reason why Kafka cannot do the same, or why this project chose otherwise."""
    return {case: reason.strip() for case, _, reason in _ROW.findall(_PAGE.read_text(encoding="utf-8"))}
