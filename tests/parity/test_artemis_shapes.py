"""`broker.xml` files of many shapes are loaded or refused, and decide, as in the real Artemis."""

import pytest

from kafka_redelivery.topology.migration.result import MigrationError
from tests.parity.importing import Migrated
from tests.parity.recordings import Case, each, recording

FILE = "artemis_shapes.json"


def source(case: Case) -> str:
    """Return the content of the recorded file."""
    return str(case["xml"]).replace("{head}", recording(FILE)["head"])


@each(FILE, "cases")
def test_a_file_is_read_as_by_the_broker(case: Case) -> None:
    """The same files are refused; for a file with which the broker does not start, a note says so; others agree."""
    properties = case.get("properties", {})
    if case["load_error"] is not None:
        with pytest.raises(MigrationError, match=r"^broker\.xml:\d+: .* the broker refuses"):
            Migrated(source(case), "broker.xml", properties)
        return
    ours = Migrated(source(case), "broker.xml", properties)
    assert ("does not start" in ours.notes) is (case["start_error"] is not None)
    for expected in case.get("addresses", ()):
        explained = ours.explain(expected["address"])
        assert explained["policy"] == recording(FILE)["defaults"] | expected["not_default"]
        if "delays_ms" in expected:
            assert explained["delays_ms"][:6] == expected["delays_ms"]
