"""Writes the dashboards as JSON, or lists outdated ones: ``python -m grafana [--check]``."""

from __future__ import annotations

import sys
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from grafana.consumer_group import consumer_group
from grafana.dead_letters import dead_letters
from grafana.overview import overview
from grafana.scheduler import scheduler
from grafana.stream import stream

FOLDER = Path(__file__).parent / "dashboards"
_BUILDERS = {
    "overview": overview,
    "consumer_group": consumer_group,
    "scheduler": scheduler,
    "stream": stream,
    "dead_letters": dead_letters,
}


def documents() -> dict[Path, str]:
    """File and content of each dashboard."""
    return {
        FOLDER / f"{name}.json": JSONEncoder(sort_keys=True, indent=2).encode(make().build()) + "\n"
        for name, make in _BUILDERS.items()
    }


def outdated() -> list[Path]:
    """Files that differ from the code, and JSON files without code."""
    made = documents()
    wrong = [path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    return wrong + [path for path in FOLDER.glob("*.json") if path not in made]


def write() -> None:
    """Write all dashboards and delete leftover files."""
    for path in outdated():
        path.unlink(missing_ok=True)
    for path, text in documents().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        found = outdated()
        if found:
            sys.exit("\n".join(f"{path} is outdated; run ./dev dashboards" for path in found))
    else:
        write()
