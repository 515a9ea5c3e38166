"""Writes what SchemaStore takes of a release, so that editors know the configuration file.

``python -m deploy.schemastore FOLDER``, where FOLDER is a checkout of SchemaStore. Its catalog gets the entry by hand.
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

from kafka_redelivery.topology.config.settings import json_schema

ROOT: Final = Path(__file__).parents[1]
ENTRY: Final = Path(__file__).with_name("schemastore.json")
"""The entry of SchemaStore's catalog, with all releases."""

EXAMPLES: Final = ("quickstart", "flights")
_SITE: Final = "https://www.schemastore.org"


def version() -> str:
    """Return the version of this project."""
    found: str = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    return found


def entry(before: dict[str, Any], release: str) -> dict[str, Any]:
    """Return the catalog's entry with one more release, which editors use from then on."""
    url = f"{_SITE}/kafka-redelivery-{release}.json"
    return {
        "name": "kafka-redelivery",
        "description": "Configuration of kafka-redelivery: redelivery policies and dead letters for Apache Kafka",
        "fileMatch": ["redelivery.yaml", "redelivery.yml"],
        "url": url,
        "versions": {**before.get("versions", {}), release: url},
    }


def files(release: str) -> dict[str, str]:
    """Return the files of a release by their path in SchemaStore: the schema, and examples that it accepts."""
    name = f"kafka-redelivery-{release}"
    examples = {each: ROOT / "examples" / each / "redelivery.yaml" for each in EXAMPLES}
    return {
        f"src/schemas/json/{name}.json": json.dumps(schema(release), indent=2) + "\n",
        **{f"src/test/{name}/{each}.yaml": path.read_text(encoding="utf-8") for each, path in examples.items()},
    }


def schema(release: str) -> dict[str, Any]:
    """Return the JSON Schema in draft 7, which SchemaStore asks for; ours has no keyword that is newer."""
    text = json.dumps(json_schema()).replace('"#/$defs/', '"#/definitions/')
    found: dict[str, Any] = json.loads(text)
    named = {"$schema": "http://json-schema.org/draft-07/schema#", "$id": f"{_SITE}/kafka-redelivery-{release}.json"}
    return {**named, "definitions": found.pop("$defs"), **{name: found[name] for name in found if name != "$schema"}}


def main(folder: Path) -> None:
    """Write the files into the folder, and the entry beside this module."""
    release = version()
    for name, text in files(release).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    before = json.loads(ENTRY.read_text(encoding="utf-8")) if ENTRY.exists() else {}
    ENTRY.write_text(json.dumps(entry(before, release), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
