"""The log lines about failing records are useful, and few, however many records fail."""

import logging

import pytest

from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.consumers.handlers.record import Record, Reject
from kafka_redelivery.consumers.telemetry import failure_log
from kafka_redelivery.consumers.telemetry.failure_log import MAX_LINES_PER_KIND, WINDOW_S, FailureLog
from kafka_redelivery.topology.policy.decision import DeadLetter, Failure, FailureKind, Reason, Retry
from kafka_redelivery.topology.policy.lineage import Lineage

FAILED = Failure(FailureKind.RAISED, "KeyError", "'amount'")


def lineage(offset: int) -> Lineage:
    """A record delivered twice."""
    return Lineage("orders", 3, offset, 0, 2)


def test_a_line_names_the_record_and_the_cause(caplog: pytest.LogCaptureFixture) -> None:
    """Source partition and offset, decision, number of deliveries, exception."""
    with caplog.at_level(logging.INFO, failure_log.__name__):
        FailureLog().log(lineage(7), FAILED, DeadLetter(Reason.REDELIVERIES_EXCEEDED, FAILED))
        FailureLog().log(Lineage("orders", 3, 9, 0, 1), FAILED, DeadLetter(Reason.REJECTED, FAILED))
        FailureLog().log(Lineage("orders", 3, 6, 0, 0), FAILED, DeadLetter(Reason.UNDECODABLE, FAILED))
        FailureLog().log(lineage(8), FAILED, Retry(250, 0))
    assert caplog.messages == [
        "orders-3@7 dead-lettered (redeliveries_exceeded) after 2 deliveries: KeyError: 'amount'",
        "orders-3@9 dead-lettered (rejected) after 1 delivery: KeyError: 'amount'",
        "orders-3@6 dead-lettered (undecodable) before any delivery: KeyError: 'amount'",
        "orders-3@8 failed at delivery 2, next delivery in 250 ms: KeyError: 'amount'",
    ]


def test_a_burst_does_not_flood_the_log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few lines per kind, then their number."""
    now = 100.0
    monkeypatch.setattr(failure_log, "monotonic_s", lambda: now)
    log = FailureLog()
    with caplog.at_level(logging.INFO, failure_log.__name__):
        for offset in range(1000):
            log.log(lineage(offset), FAILED, Retry(250, 0))
        assert len(caplog.messages) == MAX_LINES_PER_KIND
        now += WINDOW_S + 1
        log.log(lineage(1000), FAILED, Retry(250, 0))
    assert caplog.messages[MAX_LINES_PER_KIND].startswith(f"{1000 - MAX_LINES_PER_KIND} more of Retry after KeyError")
    assert len(caplog.messages) == MAX_LINES_PER_KIND + 2


def test_a_traceback_is_logged_once_per_exception_class(caplog: pytest.LogCaptureFixture) -> None:
    """A rejection by the handler is no error and has none."""

    def charge(record: Record) -> None:
        """Never called here."""

    handler = as_handler(charge)
    with caplog.at_level(logging.INFO, "kafka_redelivery.consumers.handlers.handler"):
        for error in (KeyError("amount"), KeyError("amount"), ValueError("x"), Reject("no")):
            handler.failure(error)
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [KeyError, ValueError]
