"""Files of many shapes are loaded, or refused, and decide as in the real Artemis."""

import pytest

from tests.parity.importing import Migrated
from tests.parity.recordings import Case, each, recording
from topology.migration.result import MigrationError

FILE = "artemis_shapes.json"


def source(case: Case) -> str:
    """The file as it was loaded."""
    return str(case["xml"]).replace("{head}", recording(FILE)["head"])


@each(FILE, "cases")
def test_a_file_is_read_as_there(case: Case) -> None:
    """What was refused is refused, what did not start is told, and all else resolves and delays as recorded."""
    properties = case.get("properties", {})
    if case["load_error"] is not None:
        with pytest.raises(MigrationError, match=r"^broker\.xml:\d+: .* the broker refuses"):
            Migrated(source(case), "broker.xml", properties)
        return
    ours = Migrated(source(case), "broker.xml", properties)
    assert ("does not start" in ours.notes) is (case["start_error"] is not None)
    for expected in case.get("addresses", ()):
        told = ours.explain(expected["address"])
        assert told["policy"] == recording(FILE)["defaults"] | expected["not_default"]
        if "delays_ms" in expected:
            assert told["delays_ms"][:6] == expected["delays_ms"]
