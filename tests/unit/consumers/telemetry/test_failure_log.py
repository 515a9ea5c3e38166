"""The log lines about failing records are useful, and few, however many records fail."""

import logging

import pytest

from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.consumers.handlers.record import Record, Reject
from kafka_redelivery.consumers.telemetry import failure_log
from kafka_redelivery.consumers.telemetry.failure_log import MAX_LINES, MAX_RETRY_LINES, WINDOW_S, FailureLog
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.policy.decision import (
    DeadLetter,
    Decision,
    Discard,
    Failure,
    FailureDetails,
    FailureKind,
    Reason,
    Retry,
)
from kafka_redelivery.topology.policy.lineage import Lineage
from tests.unit.consumers.batches import RAISED, batch_of, handled
from tests.unit.consumers.records import entry, record, route, source

FAILED = Failure(FailureKind.RAISED, "KeyError", "'amount'")
FIELDS = ("topic", "origin", "attempt", "key", "exception", "reason", "delay_ms")


def lineage(offset: int) -> Lineage:
    """A record delivered twice."""
    return Lineage("orders", 3, offset, 0, 2)


def test_a_line_names_the_record_and_the_cause(caplog: pytest.LogCaptureFixture) -> None:
    """Source partition and offset, key, decision, number of deliveries, exception."""
    with caplog.at_level(logging.INFO, failure_log.__name__):
        FailureLog().log(lineage(7), FAILED, DeadLetter(Reason.REDELIVERIES_EXCEEDED, FAILED), b"order-7")
        FailureLog().log(Lineage("orders", 3, 9, 0, 1), FAILED, DeadLetter(Reason.REJECTED, FAILED), None)
        FailureLog().log(Lineage("orders", 3, 6, 0, 0), FAILED, Discard(Reason.UNDECODABLE, FAILED), b"\x00\xff")
        FailureLog().log(lineage(8), FAILED, Retry(250, 0), "Müller".encode())
        FailureLog().log(lineage(9), FAILED, DeadLetter(Reason.UNDELIVERABLE, FAILED), b"k", "tier-0@5")
    assert caplog.messages == [
        "orders-3@7 (key 'order-7') dead-lettered (redeliveries_exceeded) after 2 deliveries: KeyError: 'amount'",
        "orders-3@9 (no key) dead-lettered (rejected) after 1 delivery: KeyError: 'amount'",
        "orders-3@6 (key b'\\x00\\xff') discarded (undecodable) before any delivery: KeyError: 'amount'",
        "orders-3@8 (key 'Müller') failed at delivery 2, next delivery in 250 ms: KeyError: 'amount'",
        "orders-3@9 (key 'k', waits at tier-0@5) dead-lettered (undeliverable) after 2 deliveries: KeyError: 'amount'",
    ]


def test_a_batch_logs_each_of_its_decisions(caplog: pytest.LogCaptureFixture) -> None:
    """Also those that equal the one before."""
    with caplog.at_level(logging.INFO, failure_log.__name__):
        batch_of(handled(source(), record(0), record(1), record(2), failures={0: RAISED, 2: RAISED}))
    assert [line.partition(" ")[0] for line in caplog.messages] == ["orders-0@0", "orders-0@2"]


def test_a_line_names_the_trace(caplog: pytest.LogCaptureFixture) -> None:
    """If the call that failed was a span."""
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    failure = FAILED._replace(span=f"00-{trace}-00f067aa0ba902b7-01")
    with caplog.at_level(logging.INFO, failure_log.__name__):
        FailureLog().log(lineage(7), failure, Retry(250, 0), b"k")
        FailureLog(FailureDetails.CLASS_ONLY).log(lineage(7), failure, DeadLetter(Reason.REJECTED, failure), b"k")
    assert caplog.messages == [
        f"orders-3@7 (key 'k', trace {trace}) failed at delivery 2, next delivery in 250 ms: KeyError: 'amount'",
        f"orders-3@7 (trace {trace}) dead-lettered (rejected) after 2 deliveries: KeyError",
    ]
    assert [vars(each)["trace_id"] for each in caplog.records] == [trace, trace]


def test_a_hostile_record_has_one_short_line(caplog: pytest.LogCaptureFixture) -> None:
    """Key and cause may hold line breaks, and a megabyte."""
    failure = Failure(FailureKind.RAISED, "ValueError", "bad\nline 2 \x1b[31m" + "x" * 1_000_000)
    with caplog.at_level(logging.INFO, failure_log.__name__):
        FailureLog().log(lineage(7), failure, DeadLetter(Reason.REJECTED, failure), b"k\n" * 1_000_000)
    [line] = caplog.messages
    assert line.isprintable()
    assert len(line) < 1000
    assert "ValueError: bad\\nline 2" in line


@pytest.mark.parametrize(
    ("decision", "lines", "plural"),
    [
        (DeadLetter(Reason.REJECTED, FAILED), MAX_LINES, "dead letters"),
        (Discard(Reason.REJECTED, FAILED), MAX_LINES, "discarded records"),
        (Retry(250, 0), MAX_RETRY_LINES, "retries"),
    ],
)
def test_a_burst_does_not_flood_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, decision: Decision, lines: int, plural: str
) -> None:
    """So many lines per exception class, then one with the number of those left out, even if no record fails again."""
    now = 100.0
    monkeypatch.setattr(failure_log, "monotonic_s", lambda: now)
    other = Failure(FailureKind.RAISED, "OSError", "")
    log = FailureLog()
    with caplog.at_level(logging.INFO, failure_log.__name__):
        for offset in range(1000):
            log.log(lineage(offset), FAILED, decision, b"k")
            log.report_left_out()
        log.log(lineage(0), other, decision, b"k")
        assert len(caplog.messages) == lines + 1
        now += WINDOW_S
        log.report_left_out()
        log.report_left_out()
        assert caplog.messages[lines + 1 :] == [f"{1000 - lines} more {plural} after KeyError, not logged one by one"]
        caplog.clear()
        log.log(lineage(1000), FAILED, decision, b"k")
        assert len(caplog.messages) == 1


def test_the_end_of_a_process_reports_what_was_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """Before the end of the window, once, and the window goes on."""
    log = FailureLog()
    with caplog.at_level(logging.INFO, failure_log.__name__):
        for _ in range(2):
            for offset in range(MAX_LINES + 1):
                log.log(lineage(offset), FAILED, DeadLetter(Reason.REJECTED, FAILED), b"k")
            log.report_left_out(ending=True)
            log.report_left_out(ending=True)
    counts = [line for line in caplog.messages if " more " in line]
    assert [line.split()[0] for line in counts] == ["1", str(MAX_LINES + 1)]
    assert len(caplog.messages) == MAX_LINES + 2


@pytest.mark.parametrize("details", FailureDetails)
def test_a_dead_letter_has_its_traceback(caplog: pytest.LogCaptureFixture, details: FailureDetails) -> None:
    """With the id of its record: all frames, with source code and texts if they may be shown. A retry has none."""

    def charge(record: Record) -> None:
        raise KeyError(record.topic)

    handler = as_handler(charge)
    try:
        charge(Record("orders", 3, 7, None, b"", None, b"", [], 0))
    except KeyError as error:
        failure = details.of(handler.failure(error))
    log = FailureLog(details)
    caplog.clear()
    with caplog.at_level(logging.INFO, failure_log.__name__):
        log.log(lineage(7), failure, Retry(250, 0), b"k")
        log.log(lineage(7), failure, DeadLetter(Reason.REJECTED, failure), b"k")
    retry, letter = caplog.messages
    assert "\n" not in retry
    assert letter.startswith("orders-3@7")
    assert ", in test_a_dead_letter_has_its_traceback.<locals>.charge" in letter
    assert ("raise KeyError(record.topic)" in letter) == (details is FailureDetails.FULL)
    assert ("'orders'" in letter) == (details is FailureDetails.FULL)


def test_each_place_has_its_lines(caplog: pytest.LogCaptureFixture) -> None:
    """A cause is not left out because another one of its class fills the window."""
    log = FailureLog()
    with caplog.at_level(logging.INFO, failure_log.__name__):
        for place in ("shop.charge:7", "shop.refund:9"):
            failure = FAILED._replace(frames=(place,))
            for offset in range(MAX_LINES + 1):
                log.log(lineage(offset), failure, DeadLetter(Reason.REJECTED, failure), b"k")
        log.report_left_out(ending=True)
    assert len(caplog.messages) == 2 * MAX_LINES + 2
    assert caplog.messages[-1].startswith("1 more dead letter after KeyError in shop.refund,")


def test_a_traceback_is_logged_once_per_exception_class(caplog: pytest.LogCaptureFixture) -> None:
    """A rejection by the handler is no error and has none."""

    def charge(record: Record) -> None:
        """Never called here."""

    handler = as_handler(charge)
    with caplog.at_level(logging.INFO, "kafka_redelivery.consumers.handlers.handler"):
        for error in (KeyError("amount"), KeyError("amount"), ValueError("x"), Reject("no")):
            handler.failure(error)
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [KeyError, ValueError]


@pytest.mark.parametrize(
    ("after_ms", "longest_ms", "redeliveries", "warnings"),
    [(5, None, 6, 1), (None, None, 6, 0), (5, 60_000, 6, 0), (5, None, 0, 0)],
)
def test_the_first_ignored_delay_of_a_handler_is_warned_of(
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    after_ms: int | None,
    longest_ms: int | None,
    redeliveries: int,
    warnings: int,
) -> None:
    """Without ``maximumHandlerDelay``, once per process, and not for a record that is not redelivered."""
    monkeypatch.setattr(FailureLog, "_ignored_delay_logged", False)
    policy = RedeliveryPolicy(maximum_redeliveries=redeliveries)
    assigned = source(route(entry(policy, longest_own_delay_ms=longest_ms)))
    failed = RAISED._replace(after_ms=after_ms)
    with caplog.at_level(logging.WARNING, failure_log.__name__):
        for offset in range(2):  # each has a log of its own, as the tasks of a query have
            batch_of(handled(assigned, record(offset), failures={0: failed}))
    assert [message.partition(" ")[0] for message in caplog.messages if "maximumHandlerDelay" in message] == (
        ["orders-0@0"] * warnings
    )


def test_a_line_has_fields_for_what_it_says(caplog: pytest.LogCaptureFixture) -> None:
    """A log in JSON is searched by its fields; without details they have neither key nor text."""
    with caplog.at_level(logging.INFO, failure_log.__name__):
        FailureLog().log(lineage(7), FAILED, DeadLetter(Reason.REJECTED, FAILED), b"order-7")
        FailureLog().log(lineage(8), FAILED, Retry(250, 0), None)
        FailureLog().log(lineage(9), FAILED, Retry(250, 0), b"\xff" * 1000)
        FailureLog(FailureDetails.CLASS_ONLY).log(lineage(7), FAILED, Retry(250, 0), b"order-7")
    dead, retried, hostile, bare = (
        {name: getattr(each, name) for name in FIELDS if hasattr(each, name)} for each in caplog.records
    )
    origin = {"topic": "orders", "origin": "orders-3@7", "attempt": 2}
    assert dead == {**origin, "key": "order-7", "exception": "KeyError: 'amount'", "reason": "rejected"}
    assert retried == {
        **origin,
        "origin": "orders-3@8",
        "key": None,
        "exception": "KeyError: 'amount'",
        "delay_ms": 250,
    }
    assert hostile["key"] == r"\xff" * 100
    assert bare == {**origin, "exception": "KeyError", "delay_ms": 250}
