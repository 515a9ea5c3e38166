"""Reads the log of a Delta table, because the shared session of the tests has no jars of Delta."""

import json
from pathlib import Path


def files(table: Path) -> list[Path]:
    """The data files of the table; none before there is a log."""
    found: dict[str, Path] = {}
    for log in sorted((table / "_delta_log").glob("*.json")):
        for action in map(json.loads, log.read_text(encoding="utf-8").splitlines()):
            if "add" in action:
                found[action["add"]["path"]] = table / action["add"]["path"]
            elif "remove" in action:
                del found[action["remove"]["path"]]
    return list(found.values())
