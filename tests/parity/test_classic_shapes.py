"""Files of many shapes are loaded, or refused, and decide as in the real ActiveMQ Classic."""

import re

import pytest

from tests.parity.importing import Migrated
from tests.parity.recordings import Case, cases, recording
from topology.classic.java_regex import java_pattern
from topology.migration.result import MigrationError

FILE = "classic_shapes.json"
LOADED = [case for case in cases(FILE, "cases") if case["load_error"] is None]
REFUSED = [case for case in cases(FILE, "cases") if case["load_error"] is not None]


def source(case: Case) -> str:
    """The file as it was loaded."""
    return str(case["xml"]).replace("{head}", recording(FILE)["head"])


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in REFUSED])
def test_what_the_broker_refuses_is_refused(case: Case) -> None:
    """With the line of the file, or for want of a value that the user can give."""
    with pytest.raises(MigrationError) as caught:
        Migrated(source(case))
    assert caught.value.place.startswith("activemq.xml:")
    assert "refuses" in caught.value.problem or "needs a value" in caught.value.problem


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in LOADED])
def test_what_the_broker_loads_decides_as_there(case: Case) -> None:
    """The entry, the strategy and the plugin's policy of each destination are the recorded ones."""
    ours = Migrated(source(case))
    for expected in case["destinations"]:
        told = ours.explain(expected["destination"])
        assert told["policy_entry"] == expected["policy_entry"]
        strategy = expected["dead_letter_strategy"]
        assert {key: told["dead_letter_strategy"].get(key) for key in strategy} == strategy
        for key in ("broker_redelivery_entry", "broker_redelivery_policy"):
            assert told[key] == expected.get(key)
    refuses_to_start = "does not start" in ours.notes or "starts only with" in ours.notes
    assert refuses_to_start is (case["start_error"] is not None)


JAVAS_ALONE = re.compile(
    r"\\[pRXcG1-9]|&&|\[\[|a\[bc|\(\?[uUdi-]*\)|\(\?-i|\(\?idm|\{[0-9]\}\{|\(\?<=A[*{]|A\(\?i\)|^\\0$|^\\B$|\^[*?]|,\^\+"
)
"""What Java means something by that Python cannot say (or, of the last ones, says otherwise)."""


@pytest.mark.parametrize("case", cases(FILE, "patterns"), ids=lambda case: repr(case["pattern"]))
def test_a_pattern_of_the_discarding_plugin_means_the_same_names(case: Case) -> None:
    """It matches what it matched in Java, or is refused: where Java refused it, or where only Java knows it."""
    try:
        pattern = java_pattern(case["pattern"])
    except re.error:
        assert case["matches"] is None or JAVAS_ALONE.search(case["pattern"])
        return
    if not JAVAS_ALONE.search(case["pattern"]):
        assert [name for name in recording(FILE)["names"] if pattern.matches(name)] == case["matches"]
