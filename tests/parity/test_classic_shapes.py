"""`activemq.xml` files of many shapes are loaded or refused, and decide, as in the real ActiveMQ Classic."""

import re

import pytest

from kafka_redelivery.topology.java.regex import java_pattern
from kafka_redelivery.topology.migration.result import MigrationError
from tests.every import every
from tests.parity.importing import Migrated
from tests.parity.recordings import Case, cases, recording

FILE = "classic_shapes.json"
LOADED = [case for case in cases(FILE, "cases") if case["load_error"] is None]
REFUSED = [case for case in cases(FILE, "cases") if case["load_error"] is not None]


def source(case: Case) -> str:
    """Return the content of the recorded file."""
    return str(case["xml"]).replace("{head}", recording(FILE)["head"])


@every([(case,) for case in REFUSED])
def test_what_the_broker_refuses_is_refused(case: Case) -> None:
    """The error has the line of the file, or says that a placeholder needs a value."""
    with pytest.raises(MigrationError) as caught:
        Migrated(source(case))
    assert caught.value.location.startswith("activemq.xml:")
    assert "refuses" in caught.value.problem or "needs a value" in caught.value.problem


@every([(case,) for case in LOADED])
def test_what_the_broker_loads_decides_as_in_the_broker(case: Case) -> None:
    """The entry, the strategy and the plugin's policy of each destination are the recorded ones."""
    ours = Migrated(source(case))
    for expected in case["destinations"]:
        explained = ours.explain(expected["destination"])
        assert explained["policy_entry"] == expected["policy_entry"]
        strategy = expected["dead_letter_strategy"]
        assert {key: explained["dead_letter_strategy"].get(key) for key in strategy} == strategy
        for key in ("broker_redelivery_entry", "broker_redelivery_policy"):
            assert explained[key] == expected.get(key)
    refuses_to_start = "does not start" in ours.notes or "starts only with" in ours.notes
    assert refuses_to_start is (case["start_error"] is not None)


JAVA_ONLY = re.compile(
    r"\\[pRXcG1-9]|&&|\[\[|a\[bc|\(\?[uUdi-]*\)|\(\?-i|\(\?idm|\{[0-9]\}\{|\(\?<=A[*{]|A\(\?i\)|^\\0$|^\\B$|\^[*?]|,\^\+"
)
"""Syntax that Python lacks, or, in the last alternatives, interprets differently from Java."""


@every([(case,) for case in cases(FILE, "patterns")], lambda case: repr(case["pattern"]))
def test_a_pattern_of_the_discarding_plugin_matches_the_same_names(case: Case) -> None:
    """A pattern matches what it matches in Java, or is refused where Java refuses it or Python lacks the syntax."""
    try:
        pattern = java_pattern(case["pattern"])
    except re.error:
        assert case["matches"] is None or JAVA_ONLY.search(case["pattern"])
        return
    if not JAVA_ONLY.search(case["pattern"]):
        assert [name for name in recording(FILE)["names"] if pattern.matches(name)] == case["matches"]
