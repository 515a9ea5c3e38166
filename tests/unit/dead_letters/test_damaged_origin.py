"""A letter whose headers are damaged may name a topic that does not exist, and never blocks the others."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.chunking import Chunk
from kafka_redelivery.dead_letters.creation import preview
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.run import _Sender
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.policy.decision import DeadLetter, Failure, FailureKind, Reason
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.redrive.job import JobOptions, SliceId
from kafka_redelivery.topology.wire.headers import HeaderList, dead_letter_headers
from kafka_redelivery.transport.protocols import Message
from tests.unit.consumers.records import NOW, Fetched
from tests.unit.dead_letters.index.stored import published
from tests.unit.dead_letters.index.test_selecting import opened
from tests.unit.topology.redrive.test_ownership import log_of

SETTINGS = load_settings("group: billing\nkafka: {bootstrap.servers: 'localhost:1'}\nsources: [{topic: orders}]\n")
READY = SETTINGS.naming().ready_topic("orders")
OPTIONS = JobOptions(group="billing")
TOPICS = {READY: 2, "elsewhere": 1}


def letter(offset: int, *, address: str = "orders", reason: Reason = Reason.REJECTED, user: HeaderList) -> Message:
    """Return a letter as a worker writes it."""
    failure = Failure(FailureKind.RAISED, "Error", "it failed")
    headers = dead_letter_headers(
        Lineage(address, 0, offset, NOW), "billing", user, DeadLetter(reason, failure, expiration_ms=0), NOW
    )
    return cast("Message", Fetched("DLQ.orders", 0, offset, pairs=headers))


def damaged(offset: int) -> Message:
    """Return the letter of a ready record whose message id could not be read, but whose origin could."""
    return letter(offset, address=READY, reason=Reason.BAD_HEADERS, user=[("_AMQ_ORIG_ADDRESS", b"orders")])


def cut(offset: int) -> Message:
    """Return a letter without a message id."""
    message = letter(offset, user=[])
    message.set_headers([pair for pair in message.headers() or [] if pair[0] != "_AMQ_ORIG_MESSAGE_ID"])
    return message


def test_a_damaged_letter_is_refused_and_the_others_are_sent() -> None:
    """Its reason says why, and the job goes on."""
    log = log_of([("first", 0, {SliceId("DLQ.orders", 0): {0, 1, 2}})])
    ledger = SimpleNamespace(group="billing", partition_counts=TOPICS)
    sender = _Sender(SETTINGS, cast("Ledger", ledger), log.jobs["first"], 0, lambda: NOW, None, {})
    chunk = Chunk(2, [(0, damaged(0)), (1, cut(1)), (2, letter(2, user=[]))])
    records, origins, said = sender.make(chunk)
    assert ([record.topic for record in records], origins, said.sent, said.through) == ([READY], [2], 1, 2)
    assert set(said.refused) == {0, 1}
    assert f"there is no topic {SETTINGS.naming().ready_topic(READY)}" in said.refused[0]
    assert "_AMQ_ORIG_MESSAGE_ID" in said.refused[1]


@pytest.mark.parametrize("options", [OPTIONS, JobOptions(group="billing", to="elsewhere")])
def test_the_preview_says_what_will_be_refused(tmp_path: Path, options: JobOptions) -> None:
    """By the same rule. Another letter whose target does not exist still counts, so that the whole is refused."""
    messages = [damaged(0), cut(1), letter(2, user=[])]
    index = opened(published(tmp_path / "index", cast("list[Fetched]", messages)))
    found = preview(SETTINGS, index, Selection(), options, TOPICS, NOW)
    assert found.total == 3
    if options.to is None:
        assert (found.refused, dict(found.targets)) == (2, {READY: 1})
    else:
        assert (found.refused, dict(found.targets)) == (1, {"elsewhere": 2})
    index.close()
    unknown = [*messages, letter(3, address="unknown", user=[])]
    index = opened(published(tmp_path / "another", cast("list[Fetched]", unknown)))
    if options.to is None:
        with pytest.raises(RedriveError, match=f"there is no topic {SETTINGS.naming().ready_topic('unknown')}"):
            preview(SETTINGS, index, Selection(), options, TOPICS, NOW)
    index.close()
