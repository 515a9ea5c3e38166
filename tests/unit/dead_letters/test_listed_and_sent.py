"""What a job lists and sends: a damaged letter, one of another group and a later one never block or join the others."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.creation import _listed, preview
from kafka_redelivery.dead_letters.foreign.systems import Recognition
from kafka_redelivery.dead_letters.jobs import Chunk, _ChunkMaker, _Read
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.source import OtherSystem
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.policy.decision import DeadLetter, Failure, FailureKind, Reason
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.redrive.job import JobOptions, SliceId
from kafka_redelivery.topology.wire.headers import ORIG_QUEUE, HeaderList, dead_letter_headers
from kafka_redelivery.transport.protocols import Message, Partition
from tests.unit.consumers.records import NOW, Fetched
from tests.unit.dead_letters.index.stored import BASIS, published
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
    maker = _ChunkMaker(SETTINGS, cast("Ledger", ledger), log.jobs["first"], 0, lambda: NOW, None, {}, {})
    chunk = Chunk(2, [(0, _Read(damaged(0))), (1, _Read(cut(1))), (2, _Read(letter(2, user=[])))])
    records, origins, said = maker.make(chunk)
    assert ([record.topic for record in records], origins, said.sent, said.through) == ([READY], [2], 1, 2)
    assert set(said.refused) == {0, 1}
    assert f"there is no topic {SETTINGS.naming().ready_topic(READY)}" in said.refused[0]
    assert "_AMQ_ORIG_MESSAGE_ID" in said.refused[1]


def test_a_letter_of_another_group_is_refused() -> None:
    """Whatever has listed it: it is checked again when it is sent."""
    log = log_of([("first", 0, {SliceId("DLQ.orders", 0): {0, 1}})])
    ledger = SimpleNamespace(group="billing", partition_counts=TOPICS)
    maker = _ChunkMaker(SETTINGS, cast("Ledger", ledger), log.jobs["first"], 0, lambda: NOW, None, {}, {})
    theirs = letter(0, user=[])
    theirs.set_headers([(name, b"audit" if name == ORIG_QUEUE else value) for name, value in theirs.headers() or []])
    records, offsets, said = maker.make(Chunk(1, [(0, _Read(theirs)), (1, _Read(letter(1, user=[])))]))
    assert ([record.topic for record in records], offsets) == ([READY], [1])
    assert said.refused == {0: "it is a dead letter of group 'audit'"}


def test_letters_that_died_later_are_not_meant(tmp_path: Path) -> None:
    """A preview that a person has seen has ends; the index may have read on since."""
    folder = published(tmp_path / "index", cast("list[Fetched]", [letter(each, user=[]) for each in range(5)]))
    manifest = folder.manifest()
    assert manifest is not None
    folder.publish(replace(manifest, slots=tuple(replace(each, position=5) for each in manifest.slots)))
    index = opened(folder)
    for ends, expected in (({0: 3}, 3), ({0: 5, 1: 5}, 5), ({1: 5}, 0), ({0: 9, 1: 9}, 5)):
        below = {Partition("DLQ.orders", number): end for number, end in ends.items()}
        found = preview(SETTINGS, index, Selection(), OPTIONS, TOPICS, NOW, below)
        assert found.total == expected, ends
        assert sum(map(len, _listed(index, found).values())) == expected
    index.close()


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


def test_ids_that_no_letter_has(tmp_path: Path) -> None:
    """They are mistyped, deleted, or of another group; other parts of the selection do not count."""
    theirs = letter(2, user=[])
    theirs.set_headers([(name, b"audit" if name == ORIG_QUEUE else value) for name, value in theirs.headers() or []])
    messages = [letter(0, user=[]), letter(1, user=[]), theirs]
    index = opened(published(tmp_path / "index", cast("list[Fetched]", messages)))
    ids = {"DLQ.orders-0@0", "orders-0@1", "DLQ.orders-0@2", "DLQ.orders-0@9", "orders-0@2"}
    wanted = Selection(ids=frozenset(ids), reasons=("none",))
    found = preview(SETTINGS, index, wanted, OPTIONS, TOPICS, NOW)
    assert found.total == 0
    assert found.document()["unknownIds"] == ["DLQ.orders-0@2", "DLQ.orders-0@9", "orders-0@2"]
    assert preview(SETTINGS, index, Selection(), OPTIONS, TOPICS, NOW).unknown_ids == ()
    index.close()


def test_a_reason_of_another_system_is_its_own(tmp_path: Path) -> None:
    """Our own duplicates were delivered otherwise. Another system may mean a business rule by the word."""
    duplicate = letter(0, reason=Reason.DUPLICATE, user=[])
    foreign = Fetched("DLQ.orders", 0, 0, b"k", b"{}", [("x-topic", b"orders"), ("x-reason", b"duplicate")])
    recognition = Recognition((("topic", "x-topic"), ("reason", "x-reason")))
    other = OtherSystem("DLQ.orders", SETTINGS.kafka, recognition)
    of_other = replace(BASIS, group="DLQ.orders", recognition=recognition)
    for source, basis, message, counts in (
        (SETTINGS, BASIS, cast("Fetched", duplicate), (0, 1)),
        (other, of_other, foreign, (1, 0)),
    ):
        index = opened(published(tmp_path / source.group, [message], basis), basis)
        options = JobOptions(group=source.group, allow_empty=source is other)  # it reads no records of sources
        found = preview(source, index, Selection(), options, {READY: 1, "orders": 1}, NOW)
        assert (found.total, found.duplicates) == counts
        assert sum(map(len, _listed(index, found).values())) == found.total
        index.close()


def test_letters_without_a_target_can_be_skipped(tmp_path: Path) -> None:
    """Those of a source whose ready topic is gone are counted and not listed; the others are."""
    messages = [letter(0, user=[]), letter(1, address="gone", user=[]), letter(2, address="gone", user=[])]
    index = opened(published(tmp_path / "index", cast("list[Fetched]", [*messages, cut(3)])))
    found = preview(SETTINGS, index, Selection(), OPTIONS, TOPICS, NOW, skip_refused=True)
    assert (found.total, dict(found.targets), found.refused) == (2, {READY: 1}, 1)
    assert dict(found.skipped) == {SETTINGS.naming().ready_topic("gone"): 2}
    assert found.document()["skipped"] == dict(found.skipped)
    assert {offset for each in _listed(index, found).values() for offset in each} == {0, 3}
    index.close()
