"""What a worker's log says of failing records: enough to act on, however many fail."""

import logging

import pytest

from consumers import failure_log
from consumers.failure_log import MOST, WINDOW_S, FailureLog
from consumers.handler import as_handler
from consumers.record import Record, Reject
from topology.decision import DeadLetter, Failure, FailureKind, Reason, Retry
from topology.lineage import Lineage

FAILED = Failure(FailureKind.RAISED, "KeyError", "'amount'")


def lineage(offset: int) -> Lineage:
    """A record delivered twice."""
    return Lineage("orders", 3, offset, 0, 2)


def test_a_dead_letter_names_its_record_and_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    """Where it came from, why it died, after how many deliveries."""
    with caplog.at_level(logging.INFO, failure_log.__name__):
        FailureLog().tell(lineage(7), FAILED, DeadLetter(Reason.REDELIVERIES_EXCEEDED, FAILED))
        FailureLog().tell(Lineage("orders", 3, 9, 0, 1), FAILED, DeadLetter(Reason.REJECTED, FAILED))
        FailureLog().tell(Lineage("orders", 3, 6, 0, 0), FAILED, DeadLetter(Reason.UNDECODABLE, FAILED))
        FailureLog().tell(lineage(8), FAILED, Retry(250, 0))
    assert caplog.messages == [
        "orders-3@7 dead-lettered (redeliveries_exceeded) after 2 deliveries: KeyError: 'amount'",
        "orders-3@9 dead-lettered (rejected) after 1 delivery: KeyError: 'amount'",
        "orders-3@6 dead-lettered (undecodable) before any delivery: KeyError: 'amount'",
        "orders-3@8 failed at delivery 2, again in 250 ms: KeyError: 'amount'",
    ]


def test_a_storm_does_not_flood_it(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few lines of a kind, then their number."""
    now = 100.0
    monkeypatch.setattr(failure_log, "monotonic_s", lambda: now)
    log = FailureLog()
    with caplog.at_level(logging.INFO, failure_log.__name__):
        for offset in range(1000):
            log.tell(lineage(offset), FAILED, Retry(250, 0))
        assert len(caplog.messages) == MOST
        now += WINDOW_S + 1
        log.tell(lineage(1000), FAILED, Retry(250, 0))
    assert caplog.messages[MOST].startswith(f"{1000 - MOST} more of Retry after KeyError")
    assert len(caplog.messages) == MOST + 2


def test_a_traceback_is_shown_once_for_each_class(caplog: pytest.LogCaptureFixture) -> None:
    """A programming error is found in the log; a verdict of the handler's is no error."""

    def charge(record: Record) -> None:
        """Never called here."""

    handler = as_handler(charge)
    with caplog.at_level(logging.INFO, "consumers.handler"):
        for error in (KeyError("amount"), KeyError("amount"), ValueError("x"), Reject("no")):
            handler.failure(error)
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [KeyError, ValueError]
