"""Writes bills of materials (CycloneDX 1.6) of the wheel and of the images, from the lock files: ``./dev sbom``."""

from __future__ import annotations

import json
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from packaging.markers import Marker

from kafka_redelivery.cli.console.rendering import manifest
from kafka_redelivery.pipeline.spark.jars import CONNECTOR, DELTA
from kafka_redelivery.transport.broker.jars import LOCK_FILE, locked_jars

ROOT: Final = Path(__file__).parents[1]
LOCKS: Final = ROOT / "requirements"

_PROJECT: Final = "kafka-redelivery"
_REQUIREMENT: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)(?: ; ([^\\]+))?")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_NEEDED_BY: Final = re.compile(r"^    #(?: via)? +(?!via$)([A-Za-z0-9._-]+)(?: \(.*\))?$")
_LINUX: Final = {"os_name": "posix", "platform_system": "Linux", "sys_platform": "linux"}
_JAR: Final = re.compile(r"(.+?)-(\d.*)\.jar")


@dataclass(slots=True)
class Component:
    """Something that a wheel or image contains."""

    name: str
    version: str
    purl: str
    """Its package URL, such as ``pkg:maven/org.apache.kafka/kafka-clients@3.9.2``."""

    hashes: list[str] = field(default_factory=list)
    """SHA-256 of its files, one per platform."""

    needed_by: list[str] = field(default_factory=list)
    """The names of the packages that depend on it."""

    on_linux: bool = True
    """Whether it is installed on Linux; some packages are for other platforms only."""


def packages(lock: Path) -> list[Component]:
    """Return the packages of a file of locked requirements."""
    found: list[Component] = []
    for line in lock.read_text(encoding="utf-8").splitlines():
        if start := _REQUIREMENT.match(line):
            name, version, marker = start.groups()
            found.append(Component(name, version, f"pkg:pypi/{name}@{quote(version, safe='.')}"))
            found[-1].on_linux = marker is None or Marker(marker).evaluate(_LINUX)
        elif digest := _HASH.search(line):
            found[-1].hashes.append(digest[1])
        elif (needed := _NEEDED_BY.match(line)) and found:
            found[-1].needed_by.append(needed[1])
    return found


def jars(lock: Path) -> list[Component]:
    """Return the jars of a file of pinned jars."""
    return [_jar(each.group, each.artifact, each.version, each.sha256) for each in locked_jars(lock)]


def _jar(group: str, artifact: str, version: str, *hashes: str, needed_by: Iterable[str] = ()) -> Component:
    return Component(artifact, version, f"pkg:maven/{group}/{artifact}@{version}", list(hashes), list(needed_by))


def bundled_jars(folder: Path) -> list[Component]:
    """Return what the jars of PySpark contain, which no lock file lists: each jar, and what was merged into it."""
    found = {each.purl: each for jar in sorted(folder.glob("*.jar")) for each in _contents(jar)}
    return list(found.values())


def _contents(jar: Path) -> Iterator[Component]:
    with zipfile.ZipFile(jar) as archive:
        described = [name for name in archive.namelist() if re.fullmatch(r"META-INF/maven/.*/pom\.properties", name)]
        for name in described:
            lines = archive.read(name).decode("utf-8", "replace").splitlines()
            properties = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
            try:
                group, artifact, version = (properties[key].strip() for key in ("groupId", "artifactId", "version"))
            except KeyError:
                continue
            yield _jar(group, artifact, version, needed_by=["pyspark"])
    if not described and (named := _JAR.fullmatch(jar.name)):
        yield Component(named[1], named[2], f"pkg:generic/{named[1]}@{named[2]}", [], ["pyspark"])


def scripts() -> list[Component]:
    """Return what others wrote of the scripts and styles that the console sends to browsers; the wheel has them."""
    found: dict[str, Component] = {}
    for each in manifest():
        purl = f"pkg:npm/{each['package']}@{each['version']}"
        found.setdefault(purl, Component(each["package"], each["version"], purl)).hashes.append(each["sha256"])
    return list(found.values())


def spark_jars() -> Path:
    """Return the folder of the jars of the installed PySpark, which is locked like everything else."""
    return Path(str(distribution("pyspark").locate_file("pyspark/jars")))


def version() -> str:
    """Return the version in ``pyproject.toml``."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def bill(name: str, kind: str, contents: Iterable[Component]) -> dict[str, Any]:
    """Return a bill of materials.

    Args:
        name: what it describes.
        kind: ``library`` or ``container``.
        contents: its components, besides this project itself.
    """
    released = version()
    own = Component(_PROJECT, released, f"pkg:pypi/{_PROJECT}@{released}")
    inside = [] if kind == "library" else [own]
    wanted = contents if kind == "library" else [each for each in contents if each.on_linux]
    by_purl = {each.purl: each for each in [*inside, *wanted]}
    root = {"type": kind, "bom-ref": name, "name": name, "version": released}
    needs: dict[str, list[str]] = {each.purl: [] for each in by_purl.values()}
    top = name if kind == "library" else own.purl
    needs |= {name: [] if kind == "library" else [own.purl]}
    refs = {each.name: each.purl for each in by_purl.values() if each.purl.startswith("pkg:pypi/")} | {_PROJECT: top}
    for each in by_purl.values():
        for other in [] if each is own else each.needed_by or [_PROJECT]:
            if other in refs:
                needs[refs[other]].append(each.purl)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": root | ({"purl": own.purl} if kind == "library" else {})},
        "components": [_shown(each) for each in by_purl.values()],
        "dependencies": [{"ref": ref, "dependsOn": sorted(set(others))} for ref, others in sorted(needs.items())],
    }


def _shown(each: Component) -> dict[str, Any]:
    shown = {"type": "library", "bom-ref": each.purl, "name": each.name, "version": each.version, "purl": each.purl}
    hashes = [{"alg": "SHA-256", "content": digest} for digest in each.hashes]
    return shown | ({"hashes": hashes} if hashes else {})


def bills() -> dict[str, dict[str, Any]]:
    """Return the bills of materials by file name. What an image has from its base image is not in them."""
    runtime = [*packages(LOCKS / "runtime.txt"), *scripts()]
    console = [*packages(LOCKS / "console.txt"), *scripts()]
    spark = [*scripts(), *packages(LOCKS / "spark.txt"), *jars(CONNECTOR.lock_file), *jars(DELTA.lock_file)]
    return {
        "wheel.cdx.json": bill(_PROJECT, "library", runtime),
        "image.cdx.json": bill("kafka-redelivery-image", "container", runtime),
        "image-console.cdx.json": bill("kafka-redelivery-console-image", "container", console),
        "image-spark.cdx.json": bill(
            "kafka-redelivery-spark-image", "container", [*spark, *bundled_jars(spark_jars())]
        ),
    }


def everything() -> list[Component]:
    """Return all that is locked or bundled, also for development, once."""
    found = [each for lock in sorted(LOCKS.glob("*.txt")) for each in packages(lock)]
    found += [each for lock in (LOCK_FILE, CONNECTOR.lock_file, DELTA.lock_file) for each in jars(lock)]
    found += scripts()
    return list({each.purl: each for each in [*found, *bundled_jars(spark_jars())]}.values())


def main(folder: str = "dist") -> int:
    """Write the files into a folder."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for name, document in bills().items():
        (target / name).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        print(f"{target / name}: {len(document['components'])} components")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
