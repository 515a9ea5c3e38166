"""An imported configuration decides as the real broker that was started with it."""

import json
from typing import Any

import pytest

from kafka_redelivery.topology.migration.result import MigrationError
from tests.every import every
from tests.parity.differences import DIFFERENCES
from tests.parity.importing import Migrated, migrated
from tests.parity.recordings import DATA, Case, each

FOLDER = DATA / "config_import"
EXPECTED = sorted(FOLDER.glob("*/*.expected.json"))
PLUGIN_FIELDS = ("policy_entry", "broker_redelivery_policy", "broker_redelivery_entry", "discarded_by_plugin")


def recorded(name: str) -> tuple[str, str, Case]:
    """Return folder, file and answers of a recording."""
    path = FOLDER / name
    expected = json.loads(path.read_text(encoding="utf-8"))
    return path.parent.name, expected["file"], expected


FILES = [str(path.relative_to(FOLDER)) for path in EXPECTED]
LOADED = [name for name in FILES if recorded(name)[2]["load_error"] is None]
REFUSED = [name for name in FILES if name not in LOADED]


def answers(explained: dict[str, Any], expected: Case) -> dict[str, Any]:
    """Return the explanation of a destination, reduced to the recorded fields."""
    found = {field: explained[field] for field in (*PLUGIN_FIELDS, "dead_letter_strategy") if field in expected}
    return found | {field: expected[field] for field in ("destination", "resolved_by")}


@every([(name,) for name in REFUSED], str)
def test_what_the_broker_refuses_is_refused(name: str) -> None:
    """The error names the file and the line."""
    folder, file, expected = recorded(name)
    with pytest.raises(MigrationError) as caught:
        migrated(folder, file)
    assert caught.value.location.startswith(f"{file}:")
    assert expected["load_error"]


@every([(name,) for name in LOADED], str)
def test_each_destination_is_resolved_as_recorded(name: str) -> None:
    """After import, ``explain`` gives the recorded policies, strategies and plugins of every destination."""
    folder, file, expected = recorded(name)
    ours = migrated(folder, file, expected.get("system_properties"))
    case = file.removesuffix(".xml")
    for destination in expected.get("destinations", ()):
        found = answers(ours.explain(destination["destination"]), destination)
        differing = {field for field, value in found.items() if value != destination[field]}
        assert differing <= ({"discarded_by_plugin"} if case in DIFFERENCES else set())
    for address in expected.get("addresses", ()):
        assert ours.explain(address["address"])["policy"] == address["settings"]


@every([(name,) for name in LOADED if recorded(name)[2]["start_error"] is not None], str)
def test_a_file_that_the_broker_does_not_start_with_has_a_note(name: str) -> None:
    """The import of a file that the broker reads but does not start with has a note that says so."""
    folder, file, _ = recorded(name)
    notes = migrated(folder, file).notes
    assert "does not start" in notes or "starts only with" in notes


@each("config_import/connection_uris.json", "cases")
def test_a_connection_uri(case: Case) -> None:
    """The policy is the recorded one; a URI refused by the factory is refused, one refused later has a note."""
    if case["error"] is not None:
        with pytest.raises(MigrationError):
            Migrated(case["uri"])
        return
    ours = Migrated(case["uri"])
    assert ours.explain("any.queue")["policy"] == case["redeliveryPolicy"]
    if case.get("connection_error") is not None:
        assert "cannot be set" in ours.notes


def test_all_recordings_are_used() -> None:
    """No recording is left out because of an unexpected file name."""
    assert len(FILES) == len(list(FOLDER.glob("*/*.json")))
    assert len(LOADED) + len(REFUSED) == len(FILES)
    sources = {path.name for path in FOLDER.glob("*/*.xml")}
    assert sources == {recorded(name)[1] for name in FILES}
