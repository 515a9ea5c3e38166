"""The story of a letter ends after a time, whatever Kafka does, and says what it does not know."""

import time
from types import SimpleNamespace
from typing import cast

from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.letter import Standing
from kafka_redelivery.dead_letters.letter_jobs import LetterJobs
from kafka_redelivery.dead_letters.reading import StoredLetter, letter_in
from kafka_redelivery.dead_letters.story import story
from kafka_redelivery.topology.redrive.actions import ActionLog, ChunkProgress, Outcome, outcome_record, progress_record
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.topology.wire.headers import RedriveMark
from kafka_redelivery.transport.protocols import Partition
from tests.unit.dead_letters.test_listed_and_sent import READY, SETTINGS, letter
from tests.unit.topology.redrive.test_ownership import LETTERS, log_of


def _ledger(*, recovered: bool) -> Ledger:
    """Return a ledger with a job that has sent the first of two letters, without a Kafka."""
    actions = ActionLog()
    actions.add(*progress_record("first", 0, ChunkProgress(through=0, sent=1), 2))
    if recovered:
        actions.add(*outcome_record(RedriveMark("first", 0, 0, 1), Outcome.RECOVERED, 3))
    known = {
        "partition_counts": {READY: 1},
        "topics": TopicIds(),
        "jobs": log_of([("first", 0, {LETTERS: {0, 1}})]),
        "actions": actions,
        "actions_partition": lambda number: Partition("billing.dlq.actions", number),
    }
    return cast("Ledger", SimpleNamespace(**known))


def test_a_kafka_that_does_not_answer_ends_no_story() -> None:
    """The story has what the letter says. What became of it is not known, and the story says why."""
    message = letter(0, user=[])
    found = StoredLetter(letter_in(message, SETTINGS), Standing(), message)
    began_s = time.monotonic()
    events = story(SETTINGS, LetterJobs.of(_ledger(recovered=True), found.letter), found, within_s=0.5)
    assert time.monotonic() - began_s < 20, "a request may take as long once more, and not 30 s"
    told = [each.text for each in events]
    assert any(text.startswith("died") for text in told)
    assert any(text.startswith("not known: retry records and journal cannot be read") for text in told)
    assert any(
        text.startswith("not known: what became of it in job first: it takes longer than 0.5 s") for text in told
    )


def test_what_a_ledger_says_stays_as_it_was() -> None:
    """A story is read without the lock of the ledger, which goes on meanwhile."""
    first, second = (letter_in(letter(each, user=[]), SETTINGS) for each in (0, 1))
    ledger = _ledger(recovered=False)
    (sent,) = LetterJobs.of(ledger, first).jobs
    (waiting,) = LetterJobs.of(ledger, second).jobs
    ledger.actions.add(*outcome_record(RedriveMark("first", 0, 0, 1), Outcome.RECOVERED, 3))
    assert (sent.reached, sent.outcome, waiting.reached, waiting.outcome) == (True, None, False, None)
    (later,) = LetterJobs.of(ledger, first).jobs
    assert later.outcome is Outcome.RECOVERED
