"""A dead-letter topic that the cluster does not show: its letters may still be there."""

import logging
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.jobs import OpenJob, _Run, all_sent
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.reading import letter_partitions, no_progress
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.redrive.job import SliceId
from kafka_redelivery.transport.protocols import Partition
from tests.unit.topology.redrive.test_ownership import log_of

SETTINGS = load_settings(
    "group: billing\nkafka: {bootstrap.servers: 'localhost:1'}\nsources: [{topic: orders}, {topic: refunds}]\n"
)
LETTERS = SliceId("DLQ.orders", 1)


def run_of(partition_counts: dict[str, int]) -> _Run:
    """Return a run of a job with the letters 1 and 2 where the cluster shows these topics."""
    jobs = log_of([("first", 0, {LETTERS: {1, 2}})])
    ledger = SimpleNamespace(jobs=jobs, partition_counts=partition_counts, command=lambda *names: " ".join(names))
    return _Run(OpenJob(SETTINGS, cast("Ledger", ledger), "first"), Event(), no_progress)


def test_a_job_with_letters_of_a_hidden_topic_stops() -> None:
    """It does not say that they are gone, and its error names the topic and what to do."""
    with pytest.raises(RedriveError, match=r"DLQ\.orders.*Describe and Read.*resume first.*cancel first"):
        list(run_of({})._letters(0, [1, 2]))
    assert list(run_of({})._letters(0, [])) == [], "nothing is left to send"
    assert list(run_of({"DLQ.orders": 1})._letters(0, [1, 2])) == [], "created again with fewer partitions"


def test_hidden_topics_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """Commands go on with the topics that are shown, if there is one."""
    with caplog.at_level(logging.WARNING):
        assert letter_partitions(SETTINGS, {"DLQ.orders": 1, "DLQ.refunds": 1}) == [
            Partition("DLQ.orders", 0),
            Partition("DLQ.refunds", 0),
        ]
        assert not caplog.messages
        assert letter_partitions(SETTINGS, {"DLQ.orders": 2}) == [
            Partition("DLQ.orders", 0),
            Partition("DLQ.orders", 1),
        ]
    assert "DLQ.refunds" in caplog.text
    assert "DLQ.orders" not in caplog.text
    with pytest.raises(RedriveError, match=r"grant the right Read on topic DLQ\.orders, DLQ\.refunds"):
        letter_partitions(SETTINGS, {})


def test_records_expire_into_dead_letter_topics() -> None:
    """Workers write what has expired to the expiry topic alone, so commands read it, too."""
    expiring = load_settings(
        "group: billing\nkafka: {bootstrap.servers: 'localhost:1'}\nsources: [{topic: orders}]\n"
        "policyEntry: {deadLetterStrategy: {expiryAddress: 'EXP.{topic}'}}\n"
    )
    counts = {"DLQ.orders": 1, "EXP.orders": 1}
    assert {each.topic for each in letter_partitions(expiring, counts)} == set(counts)


def test_a_letter_that_was_not_sent_fails_the_command() -> None:
    """Refused and gone letters alike."""
    done: dict[str, Any] = {"state": "done", "gone": 0, "refused": 0, "contradictory": 0}
    assert all_sent(done)
    assert [all_sent(done | each) for each in ({"gone": 1}, {"refused": 1}, {"contradictory": 1})] == [False] * 3
    assert not all_sent(done | {"state": "cancelled"})
