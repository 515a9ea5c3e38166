"""With ``class-only`` logs have the class of an exception and its frames, and nothing that it says."""

import logging
from dataclasses import replace

import pytest

from kafka_redelivery import Unavailable
from kafka_redelivery.consumers.handlers.dependencies import Dependencies
from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.consumers.handlers.record import Record
from kafka_redelivery.consumers.telemetry import failure_log
from kafka_redelivery.consumers.telemetry.failure_log import FailureLog
from kafka_redelivery.topology.policy.decision import DeadLetter, Failure, FailureDetails, FailureKind, Reason
from kafka_redelivery.topology.policy.lineage import Lineage

_SECRET = "canary7741"  # noqa: S105 - stands for personal data
_HANDLER = "kafka_redelivery.consumers.handlers.handler"


def charge(record: Record) -> None:
    """Fail, with causes of both kinds."""
    try:
        _pay(record)
    except OSError as error:
        found = ValueError(_SECRET)
        found.add_note(_SECRET)
        raise found from error


def _pay(record: Record) -> None:
    try:
        {"order": record}[_SECRET]
    except KeyError:
        _fail()


def _fail() -> None:
    raise OSError(_SECRET)


@pytest.mark.parametrize("times", [1, 2])
def test_a_traceback_has_no_text(caplog: pytest.LogCaptureFixture, times: int) -> None:
    """It has the classes of all causes and where they were raised; the second one is logged for debugging only."""
    handler = replace(as_handler(charge), details=FailureDetails.CLASS_ONLY)
    with pytest.raises(ValueError, match=_SECRET) as raised:
        charge(None)  # type: ignore[arg-type]
    with caplog.at_level(logging.DEBUG, _HANDLER):
        for _ in range(times):
            handler.failure(raised.value)
    assert _SECRET not in caplog.text
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.DEBUG][:times]
    shown = caplog.messages[-1]
    for line in ("ValueError\n", "\ncaused by OSError\n", "\ncaused by KeyError\n", ", in charge"):
        assert line in shown
    assert __file__ in shown


def test_a_cycle_of_causes_ends(caplog: pytest.LogCaptureFixture) -> None:
    """Each exception is shown once."""
    one, other = ValueError("1"), KeyError("2")
    one.__cause__, other.__cause__ = other, one
    with caplog.at_level(logging.WARNING, _HANDLER):
        replace(as_handler(charge), details=FailureDetails.CLASS_ONLY).failure(one)
    assert caplog.messages[0].endswith("ValueError\ncaused by KeyError")


@pytest.mark.parametrize("error", [ConnectionError(_SECRET), Unavailable("bank", _SECRET)], ids=["listed", "said"])
def test_an_outage_has_no_text(error: Exception) -> None:
    """What is away, and the class, are logged and shown in the state of the process."""
    dependencies = Dependencies({"bank": 1000}, ((ConnectionError, "bank"),))
    handler = replace(as_handler(charge), details=FailureDetails.CLASS_ONLY, dependencies=dependencies)
    failure = handler.failure(error)
    assert (failure.kind, failure.dependency) == (FailureKind.UNAVAILABLE, "bank")
    assert failure.cause == type(error).__name__


def test_a_line_has_no_key_and_no_text(caplog: pytest.LogCaptureFixture) -> None:
    """Origin, reason and class stay."""
    failure = Failure(FailureKind.RAISED, "ValueError", _SECRET)
    log = FailureLog(FailureDetails.CLASS_ONLY)
    with caplog.at_level(logging.INFO, failure_log.__name__):
        log.log(Lineage("orders", 3, 7, 0, 1), failure, DeadLetter(Reason.REJECTED, failure), _SECRET.encode())
        log.log(Lineage("orders", 3, 8, 0, 1), failure, DeadLetter(Reason.REJECTED, failure), b"k", "tier-0@5")
    assert caplog.messages == [
        "orders-3@7 dead-lettered (rejected) after 1 delivery: ValueError",
        "orders-3@8 (waits at tier-0@5) dead-lettered (rejected) after 1 delivery: ValueError",
    ]
