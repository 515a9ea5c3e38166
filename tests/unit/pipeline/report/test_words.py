"""The page says in words what the table of attempts shows."""

from dataclasses import replace
from datetime import UTC, datetime

from kafka_redelivery.pipeline.report.page import survival_sentences
from kafka_redelivery.pipeline.report.report import Report

_ATTEMPTS = [(1, 1186, 0, 0), (2, 1186, 500, 0), (3, 686, 0, 0), (4, 686, 0, 0), (5, 686, 0, 686)]


def test_how_records_ended_and_which_attempts_were_in_vain() -> None:
    """The last attempts that recovered no record are named together."""
    report = _report(1186, 500, _ATTEMPTS)

    assert survival_sentences(report) == [
        "Of 1,186 failed records, 500 (42.2 %) recovered and 686 (57.8 %) became dead letters.",
        "Most recovered at attempt 2: 500 of the 1,186 that had it (42.2 %).",
        "Attempts 3 to 5 recovered 0 of 686.",
    ]
    assert "500 (42.2 %) recovered or were discarded" in survival_sentences(replace(report, journal=False))[0]


def test_other_cases() -> None:
    """All recover, none does, or none has failed."""
    assert survival_sentences(_report(1, 1, [(1, 1, 0, 0), (2, 1, 1, 0)])) == [
        "Of 1 failed record, 1 (100.0 %) recovered.",
        "Most recovered at attempt 2: 1 of the 1 that had it (100.0 %).",
    ]
    assert survival_sentences(_report(3, 0, [(1, 3, 0, 1), (2, 2, 0, 2)])) == [
        "Of 3 failed records, 0 (0.0 %) recovered and 3 (100.0 %) became dead letters.",
        "Attempt 2 recovered 0 of 2.",
    ]
    assert survival_sentences(_report(0, 0, [])) == []


def _report(failed: int, recovered: int, attempts: list[tuple[int, int, int, int]]) -> Report:
    names = ("attempt", "reached", "recovered", "dead")
    survival = [dict(zip(names, row, strict=True)) | {"discarded": 0} for row in attempts]
    return Report(
        group="g",
        made_at=datetime(2026, 11, 1, tzinfo=UTC),
        letters=0,
        origins=0,
        first=None,
        last=None,
        unit="second",
        by_origin=[],
        by_reason=[],
        by_attempt=[],
        trend=[],
        fingerprints=[],
        survival=survival,
        acked=None,
        failed=failed,
        recovered=recovered,
        recovery=[],
        curve=[],
        pending=[],
        waiting=0,
        journal=True,
        archive=None,
    )
