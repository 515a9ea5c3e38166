"""The selection of a job is for people. A forged one may have any JSON, and spoils no page."""

from hashlib import sha256
from pathlib import Path

import pytest

from kafka_redelivery.cli.console.job_book import Jobs, JobState
from kafka_redelivery.cli.console.options import ConsoleOptions
from kafka_redelivery.dead_letters.audit import trail
from kafka_redelivery.dead_letters.jobs import job_document
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.topology.redrive.actions import ActionLog
from kafka_redelivery.topology.redrive.job import Edited, JobLog, JobOptions, JobSpec, SliceId, job_records
from kafka_redelivery.topology.redrive.offset_set import OffsetSet
from tests.unit.cli.console.consoles import client, console_of, guarded

_PLACE = SliceId("DLQ.orders", 0)
_VALUE = b"abc"


def _shown(
    tmp_path: Path, selection: dict[str, object], edited: Edited | None = None, options: ConsoleOptions | None = None
) -> list[str]:
    """Return the pages of the audit trail and of a job."""
    spec = JobSpec(
        job="3f9a2c01bd",
        at_ms=1,
        by="me",
        seen=0,
        options=JobOptions(group="billing"),
        selection=selection,
        slices=(_PLACE,),
        edited=edited,
    )
    log = JobLog()
    for offset, record in enumerate(job_records(spec, {_PLACE: OffsetSet([1])}, None if edited is None else _VALUE)):
        log.add(offset, *record)
    log.settle()
    ledger = object.__new__(Ledger)  # one that has read these records, without a Kafka
    ledger.jobs, ledger.actions = log, ActionLog()
    console = console_of(tmp_path, options=options or ConsoleOptions())
    state = JobState(job_document(ledger, log.jobs[spec.job]), 0, 0.0)
    console.jobs.value = Jobs({spec.job: state}, trail(log), 0)
    browser = client(guarded(console))
    answers = [browser.get(path) for path in ("/audit", f"/jobs/{spec.job}", "/jobs")]
    assert [each.status_code for each in answers] == [200, 200, 200]
    return [each.text for each in answers[:2]]


def test_a_selection_of_ours(tmp_path: Path) -> None:
    """Lists are in one line, times are times."""
    for page in _shown(tmp_path, {"origin": ["orders", "payments"], "keys": 2, "sinceMs": 1_790_000_000_000}):
        assert "orders, payments" in page
        assert "2026-09-21 14:13:20 UTC" in page


@pytest.mark.parametrize("value", [None, True, {"a": [1]}, [None, {"<b>": 1}], [[1]], "<b>", 10**30, 1.5, "\x1b[2J"])
@pytest.mark.parametrize("name", ["origin", "sinceMs", "<b>\x1b"])
def test_any_selection_is_shown_as_text(tmp_path: Path, name: str, value: object) -> None:
    """An internal error would take the audit trail away from all."""
    for page in _shown(tmp_path, {name: value}):
        assert "<b>" not in page.partition("<main")[2].partition("3f9a2c01bd</a>")[2]
        assert "\x1b" not in page


@pytest.mark.parametrize("hidden", [False, True])
def test_a_hidden_payload_cannot_be_guessed(tmp_path: Path, hidden: bool) -> None:  # noqa: FBT001 - a parameter
    """The hash and the size of a short value would tell it."""
    edited = Edited(bytes=3, sha256=sha256(_VALUE).hexdigest(), original_bytes=4, original_sha256="b" * 64)
    of_all, job = _shown(tmp_path, {}, edited, ConsoleOptions(hide_payloads=hidden))
    assert (edited.sha256 in job) is not hidden
    assert edited.sha256 not in of_all
