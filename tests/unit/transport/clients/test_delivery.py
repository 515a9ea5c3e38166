"""What the errors of delivery reports mean, together with what the brokers say about the topics of the write."""

import pytest
from confluent_kafka import KafkaError

from kafka_redelivery.transport.clients.delivery import Failures, confirmed, refusal_of, trial_timeout_s
from kafka_redelivery.transport.errors import RefusalCause, RefusedRecord, WriteRefusedError
from kafka_redelivery.transport.protocols import ProducerRecord

UNKNOWN_TOPIC, UNKNOWN_PARTITION = KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION
FORBIDDEN, MISSING = KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART
OFFLINE = KafkaError.LEADER_NOT_AVAILABLE
RECORDS = [ProducerRecord(topic, number, None, b"", []) for topic in ("a", "b") for number in range(2)]


def refused(failures: Failures) -> dict[int, RefusalCause]:
    """Return the refused records and the cause of each."""
    error = refusal_of(failures)
    return {} if error is None else {each.index: each.cause for each in error.refused}


@pytest.mark.parametrize("code", [UNKNOWN_TOPIC, MISSING, UNKNOWN_PARTITION, OFFLINE])
def test_outdated_metadata_of_the_client_refuses_no_record(code: int) -> None:
    """The brokers have the topic and the partition, or they have not answered."""
    failures = [(1, KafkaError(code))]
    for counts in ({"a": 2}, {}):
        left = confirmed(failures, RECORDS, {}, counts)
        assert [index for index, _ in left] == [1]
        assert refused(left) == {}


def test_a_partition_that_the_brokers_do_not_have() -> None:
    """Its record is refused, and no other of the topic."""
    assert refused(confirmed([(1, KafkaError(UNKNOWN_PARTITION))], RECORDS, {}, {"a": 1})) == {1: RefusalCause.MISSING}


@pytest.mark.parametrize(
    ("code", "cause"),
    [(FORBIDDEN, RefusalCause.FORBIDDEN), (MISSING, RefusalCause.MISSING), (OFFLINE, RefusalCause.OFFLINE)],
    ids=["denied", "missing", "offline"],
)
def test_all_records_that_cannot_be_written_are_refused(code: int, cause: RefusalCause) -> None:
    """Also if no delivery report names them, as in a transaction."""
    assert refused(confirmed([], RECORDS, dict.fromkeys((2, 3), KafkaError(code)), {})) == {2: cause, 3: cause}


def test_one_denied_record_shows_that_its_topic_may_not_be_written() -> None:
    """Without an answer about the rights."""
    assert set(refused(confirmed([(0, KafkaError(FORBIDDEN))], RECORDS, {}, {}))) == {0, 1}


def test_a_refused_timestamp_is_the_fault_of_the_clock() -> None:
    """No record has one of its own, so it decides nothing about the record."""
    failures = [(1, KafkaError(KafkaError.INVALID_TIMESTAMP))]
    assert refused(confirmed(failures, RECORDS, {}, {})) == {1: RefusalCause.CLOCK}
    assert RefusalCause.CLOCK.outside


@pytest.mark.parametrize("transactional", [True, False])
@pytest.mark.parametrize("others_failed", [True, False])
def test_the_error_says_whether_the_other_records_are_written(*, transactional: bool, others_failed: bool) -> None:
    """They are, if none of them failed and no transaction is aborted with them."""
    failures = [(2, KafkaError(KafkaError._MSG_TIMED_OUT))] if others_failed else []
    failures = confirmed(failures, RECORDS, dict.fromkeys((0, 1), KafkaError(FORBIDDEN)), {})
    error = refusal_of(failures, transactional=transactional)
    assert error is not None
    assert error.outside
    assert error.others_written is not (transactional or others_failed)


def test_an_error_that_does_not_say_so_means_that_nothing_is_written() -> None:
    """To write a record again is safe, to commit past it is not."""
    assert not WriteRefusedError([RefusedRecord(0, "no right", RefusalCause.FORBIDDEN)]).others_written


@pytest.mark.parametrize(("size", "least", "most"), [(0, 2, 2), (40_000_000, 20, 30), (90_000_000, 30, 30)])
def test_a_trial_of_a_large_record_waits_longer(size: int, least: int, most: int) -> None:
    """It has to be sent first. Other writes wait for it, so not without limit."""
    assert least <= trial_timeout_s(ProducerRecord("t", 0, None, bytes(size), []), 1) <= most


@pytest.mark.parametrize(("pause_s", "waits_s"), [(1, 2), (4, 4), (8, 8), (30, 12)])
def test_a_trial_after_a_longer_pause_waits_longer(pause_s: float, waits_s: float) -> None:
    """Brokers with a quota may take longer than 2 s for each answer."""
    assert trial_timeout_s(ProducerRecord("t", 0, None, b"", []), pause_s) == waits_s
