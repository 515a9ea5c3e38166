"""The bills of materials have everything that is locked, with hashes and dependencies."""

import re
from pathlib import Path
from typing import Any

import pytest

from deploy.sbom import LOCKS, bill, bills, bundled_jars, everything, jars, packages, spark_jars
from kafka_redelivery.pipeline.spark.jars import CONNECTOR

_PURL = re.compile(r"pkg:(pypi|npm|generic|maven/[\w.-]+)/[\w.+%-]+@[\w.+%-]+")
_LOCK = """\
attrs==26.1.0 \\
    --hash=sha256:{0} \\
    --hash=sha256:{1}
    # via
    #   -c requirements/dev.txt
    #   confluent-kafka
colorama==0.4.6 ; sys_platform == 'win32' \\
    --hash=sha256:{0}
    # via attrs
confluent-kafka==1!2.16.0 \\
    --hash=sha256:{0}
    # via kafka-redelivery (pyproject.toml)
""".format("a" * 64, "b" * 64)


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    """All bills. They take seconds, since each jar within PySpark is opened."""
    return bills()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """A small file of locked requirements."""
    found = tmp_path / "lock.txt"
    found.write_text(_LOCK)
    return found


def test_a_lock_file_is_read_whole(lock: Path) -> None:
    """Versions, hashes, what needs a package, and for which platform it is."""
    attrs, colorama, client = packages(lock)
    assert (attrs.name, attrs.version, attrs.hashes) == ("attrs", "26.1.0", ["a" * 64, "b" * 64])
    assert attrs.needed_by == ["confluent-kafka"]
    assert colorama.needed_by == ["attrs"]
    assert [attrs.on_linux, colorama.on_linux, client.on_linux] == [True, False, True]
    assert client.purl == "pkg:pypi/confluent-kafka@1%212.16.0"
    assert client.needed_by == ["kafka-redelivery"]


@pytest.mark.parametrize(("kind", "names"), [("library", 3), ("container", 3)])
def test_a_bill_has_what_is_installed(lock: Path, kind: str, names: int) -> None:
    """An image also has this project, and nothing that is for other platforms."""
    found = bill("it", kind, packages(lock))
    assert len(found["components"]) == names
    assert ("pkg:pypi/colorama@0.4.6" in str(found)) == (kind == "library")
    needs = {each["ref"]: each["dependsOn"] for each in found["dependencies"]}
    assert needs["pkg:pypi/confluent-kafka@1%212.16.0"] == ["pkg:pypi/attrs@26.1.0"]
    assert len(needs["it"]) == 1


@pytest.mark.parametrize("name", ["wheel.cdx.json", "image.cdx.json", "image-console.cdx.json", "image-spark.cdx.json"])
def test_references_are_unique_and_resolved(made: dict[str, Any], name: str) -> None:
    """Every component has a package URL, and all dependencies exist. Python packages and pinned jars have hashes."""
    found = made[name]
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    refs = [each["bom-ref"] for each in found["components"]]
    assert len(set(refs)) == len(refs)
    assert all(_PURL.fullmatch(ref) for ref in refs)
    known = {*refs, found["metadata"]["component"]["bom-ref"]}
    assert {each["ref"] for each in found["dependencies"]} == known
    assert {other for each in found["dependencies"] for other in each["dependsOn"]} <= known
    own = "pkg:pypi/kafka-redelivery@"
    python = [each for each in found["components"] if each["purl"].startswith("pkg:pypi/")]
    assert all(each.get("hashes") or each["purl"].startswith(own) for each in python)


@pytest.mark.parametrize("name", ["wheel.cdx.json", "image.cdx.json", "image-console.cdx.json", "image-spark.cdx.json"])
def test_the_scripts_of_the_console_are_listed(made: dict[str, Any], name: str) -> None:
    """The wheel has them, and so has each image."""
    found = {each["purl"].partition("@")[0] for each in made[name]["components"]}
    assert {"pkg:npm/htmx.org", "pkg:npm/uplot"} <= found


def test_every_lock_is_covered() -> None:
    """Nothing that is installed anywhere escapes the audit: packages, pinned jars, and the jars within PySpark."""
    found = {each.purl for each in everything()}
    for lock in LOCKS.glob("*.txt"):
        pinned = len(re.findall(r"^\S+==", lock.read_text(encoding="utf-8"), re.MULTILINE))
        assert len(packages(lock)) == pinned > 0
        assert {each.purl for each in packages(lock)} <= found
    assert {each.purl for each in jars(CONNECTOR.lock_file)} <= found
    inside = {each.purl.partition("@")[0] for each in bundled_jars(spark_jars())}
    assert {"pkg:maven/com.google.guava/guava", "pkg:generic/scala-library"} <= inside
    assert len(inside) > 200
