"""The recorded answers of the real brokers (see data/README.md)."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from tests.every import Check, every

DATA = Path(__file__).parent / "data"

Case = dict[str, Any]
"""A recorded case as in the file."""


@cache
def recording(name: str) -> dict[str, Any]:
    """Return a file of recordings: its sections by name."""
    return dict(json.loads((DATA / name).read_text(encoding="utf-8")))


def cases(name: str, section: str) -> list[Case]:
    """Return all cases of a section."""
    return list(recording(name)[section])


def each(name: str, section: str) -> Callable[[Check], Check]:
    """Check all cases of a section."""
    return every([(case,) for case in cases(name, section)])
