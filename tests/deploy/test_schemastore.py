"""SchemaStore gets a schema of each release, in the draft that it takes, which accepts what we accept."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from deploy.schemastore import ENTRY, ROOT, entry, files, main, schema, version


def test_the_entry_has_this_release() -> None:
    """And all before it; each has an address of its own, and editors use the newest."""
    committed = json.loads(ENTRY.read_text(encoding="utf-8"))
    assert committed == entry(committed, version())
    newer = entry(committed, "99.0.0")
    assert newer["url"] == newer["versions"]["99.0.0"] == "https://www.schemastore.org/kafka-redelivery-99.0.0.json"
    assert newer["versions"].items() > committed["versions"].items()
    assert newer.keys() == {"name", "description", "fileMatch", "url", "versions"}


def test_the_schema_is_one_of_draft_7() -> None:
    """Whose references lead somewhere."""
    found = schema("1.2.3")
    jsonschema.Draft7Validator.check_schema(found)
    assert found["$id"] == "https://www.schemastore.org/kafka-redelivery-1.2.3.json"
    assert "$defs" not in json.dumps(found)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples").glob("*/redelivery.yaml")), ids=lambda path: path.parent.name
)
def test_it_accepts_the_examples(path: Path) -> None:
    """And finds a wrong name, and a wrong type deep inside."""
    validator = jsonschema.Draft7Validator(schema(version()))
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert list(validator.iter_errors(document)) == []
    assert len(list(validator.iter_errors(document | {"grup": "billing"}))) == 1
    wrong = {"policyEntry": {"redeliveryPolicy": {"maximumRedeliveries": "many"}}}
    assert len(list(validator.iter_errors(document | wrong))) == 1


def test_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The schema, and examples to test it with, in the folders of SchemaStore."""
    monkeypatch.setattr("deploy.schemastore.ENTRY", tmp_path / "entry")
    main(tmp_path / "checkout")
    written = {path.relative_to(tmp_path / "checkout").as_posix() for path in tmp_path.rglob("*.*") if path.is_file()}
    assert written == files(version()).keys()
    assert json.loads((tmp_path / "entry").read_text(encoding="utf-8"))["versions"].keys() == {version()}
