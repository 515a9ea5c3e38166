"""The end of the demo, told to people and to programs."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from io import StringIO

from rich.console import Console

from examples.flights.accounting import Faults
from examples.flights.check import Findings
from examples.flights.outage import Cost
from examples.flights.report import Report, show, show_cost
from examples.flights.truth import Ending, Expected


def _report(*faults: str, lateness_ms: tuple[int, ...] = (), early: int = 0) -> Report:
    noted = Faults()
    for fault in faults:
        noted.add(fault)
    expected = [Expected(Ending.ACKED, 10), Expected(Ending.ACKED), Expected(Ending.REJECTED)]
    findings = Findings(
        records_in=3, pending=0, outputs=Counter(acked=1), seat_miles=10, dead_letters=Counter(rejected=1),
        dead_again=0, sent_again=0, early=early, faults=noted,
    )  # fmt: skip
    counts = {"acked": 2, "dead_lettered": 1}
    return Report(expected, findings, counts, lateness_ms, {"worker": 1, "scheduler": 0}, {"work": 2.04, "check": 1.0})


def _shown(report: Report) -> str:
    output = StringIO()
    show(report, Console(file=output, width=120))
    return output.getvalue()


def test_the_object_has_what_programs_ask_for() -> None:
    """All figures, and "ok" where everything is accounted for."""
    assert json.loads(json.dumps(_report().document())) == {
        "engine": "workers",
        "records_in": 3,
        "outcomes": {
            "acked": 2,
            "recovered": 0,
            "dead_lettered": {"rejected": 1, "undecodable": 0, "redeliveries_exceeded": 0},
            "discarded": 0,
            "pending": 0,
        },
        "seat_miles": 10,
        "lateness_ms": {"p50": None, "p99": None, "max": None, "early": 0, "count": 0},
        "conservation": "ok",
        "restarts": {"worker": 1, "scheduler": 0},
        "seconds": 3.0,
        "phases": {"work": 2.0, "check": 1.0},
    }


def test_what_was_sent_again_has_rows_of_its_own() -> None:
    """They show what became of the dead letters, and a difference is marked."""
    report = _report()
    letters = [Expected(Ending.REDELIVERIES_EXCEEDED, 5, Ending.RECOVERED)] * 3
    letters.append(Expected(Ending.REDELIVERIES_EXCEEDED, None, Ending.REDELIVERIES_EXCEEDED))
    findings = replace(report.findings, outputs=Counter(acked=1, dead_lettered=3), sent_again=4, dead_again=1)
    right = replace(report, expected=[*report.expected, *letters], findings=findings)
    assert right.document()["redrive"] == {"sent_again": 4, "recovered": 3, "dead_again": 1}
    lines = [line for line in _shown(right).splitlines() if "again" in line or "known now" in line]
    assert [line.count("✓") for line in lines] == [1, 1, 1]
    wrong = replace(right, findings=replace(findings, dead_again=2))
    assert any("dead again" in line and "✗" in line for line in _shown(wrong).splitlines())


def test_an_outage_has_rows_of_its_own() -> None:
    """They show what it has cost, and more than nothing is marked."""
    report = replace(_report(), outage=Cost(60.0, 17, 54, 0, 0, 7.5))
    assert report.document()["outage"]["full_s"] == 7.5
    lines = [line for line in _shown(report).splitlines() if "book" in line or "full speed" in line]
    assert [line.count("✓") for line in lines] == [1, 1, 1, 0]
    assert "7.5 s" in lines[-1]
    wrong = _shown(replace(report, outage=Cost(60.0, 55, 54, 1, 0, 7.5)))
    assert wrong.count("✗") == 2


def test_what_keeps_its_order_has_a_row() -> None:
    """A flight that was overtaken is marked."""
    report = replace(_report(), blocking=True)
    assert report.document()["overtaken"] == 0
    assert "✗" not in _shown(report)
    wrong = replace(report, findings=replace(report.findings, overtaken=1))
    assert any("overtaken" in line and "✗" in line for line in _shown(wrong).splitlines())


def test_the_cost_without_a_dependency() -> None:
    """Each figure has a row, and none is expected."""
    output = StringIO()
    show_cost(Cost(60.0, 7001, 54, 1402, 5599, 7.5), Console(file=output, width=120))
    assert all(figure in output.getvalue() for figure in ("60 s", "7,001", "1,402", "5,599"))


def test_lateness_is_exact() -> None:
    """Quantiles are values that occurred; early ones are counted from both sources."""
    late = _report(lateness_ms=(*range(1, 101), -1), early=2).document()["lateness_ms"]
    assert late == {"p50": 50, "p99": 99, "max": 100, "early": 3, "count": 101}


def test_the_number_of_listed_faults_is_limited() -> None:
    """The first twenty by name, the others as a number."""
    lines = _report(*(f"fault {number}" for number in range(25))).document()["conservation"]
    assert lines == [*(f"fault {number}" for number in range(20)), "and 5 more"]


def test_the_table_marks_differences() -> None:
    """A correct table has no cross; faults are listed below it."""
    assert "✗" not in _shown(_report())
    assert "every record is accounted for" in _shown(_report())
    assert "killed and restarted: worker 1 times" in _shown(_report())
    wrong = _shown(_report("flights-0@7 is gone"))
    assert "1 faults" in wrong
    assert "flights-0@7 is gone" in wrong
