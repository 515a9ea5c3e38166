"""Whatever halts a partition is explained to the person whom the alert wakes."""

import re
from pathlib import Path

from kafka_redelivery.consumers.flow.stops import FIXES
from kafka_redelivery.consumers.telemetry.observers import HaltCause
from kafka_redelivery.transport.errors import RefusalCause

ROOT = Path(__file__).parents[3]


def test_each_cause_is_in_the_runbook() -> None:
    """None is missing, and none is left that does not exist any more."""
    page = (ROOT / "docs/runbooks/RedeliveryWorkerHalted.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^- `(\w+)`: ", page, re.MULTILINE)) == sorted(HaltCause)


def test_the_alert_says_how_to_fix_each() -> None:
    """None is missing, so that no reader has to guess."""
    rules = (ROOT / "deploy/prometheus/rules/processes.yml").read_text(encoding="utf-8")
    assert set(re.findall(r'\$labels\.cause "(\w+)"', rules)) == {*HaltCause}


def test_each_refusal_can_halt() -> None:
    """Its name is the label's, and its halt says how to end it. An output that is refused for itself halts nothing."""
    halting = {*RefusalCause} - {RefusalCause.OTHER}
    assert {*map(str, halting)} <= {*map(str, HaltCause)}
    assert set(FIXES) == halting
