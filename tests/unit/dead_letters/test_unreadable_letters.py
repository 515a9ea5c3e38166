"""A letter whose headers the client cannot return is never sent without them, and its export says so."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

from kafka_redelivery.dead_letters.jobs import Chunk, _ChunkMaker, _Read
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.letter import Standing
from kafka_redelivery.dead_letters.reading import StoredLetter, letter_in
from kafka_redelivery.dead_letters.source import OtherSystem
from kafka_redelivery.topology.redrive.job import JobOptions, SliceId
from kafka_redelivery.topology.wire.headers import HeaderList
from kafka_redelivery.transport.protocols import Message
from tests.unit.consumers.records import NOW, Fetched
from tests.unit.topology.redrive.test_ownership import log_of

_FAILED = OtherSystem(group="billing", kafka={})


class _Unreadable(Fetched):
    """A record with a header whose name is not UTF-8."""

    def headers(self) -> HeaderList | None:
        if self.pairs is None:
            raise SystemError("returned a result with an exception set")
        return self.pairs


def test_it_is_refused_after_it_was_looked_at() -> None:
    """A job looks for the record that a letter names before it makes its copy."""
    message = cast("Message", _Unreadable("billing", 0, 7, b"key"))
    assert not letter_in(message, _FAILED).headers
    job = log_of([("first", 0, {SliceId("billing", 0): {7}})]).jobs["first"]
    job = replace(job, spec=replace(job.spec, options=JobOptions(group="billing", to="orders")))
    ledger = cast("Ledger", SimpleNamespace(group="billing", partition_counts={"orders": 1}))
    made = _ChunkMaker(_FAILED, ledger, job, 0, lambda: NOW, None, {}, {}).make(Chunk(7, [(7, _Read(message))]))
    assert (made.records, list(made.progress.refused)) == ([], [7])
    assert "not UTF-8" in made.progress.refused[7]


def test_its_export_has_no_list_of_headers() -> None:
    """An empty list would mean that it has none."""
    found = {}
    for message in (_Unreadable("billing", 0, 7, b"key"), Fetched("billing", 0, 8, b"key")):
        its = cast("Message", message)
        found[message.place] = StoredLetter(letter_in(its, _FAILED), Standing(), its).exported()["headers"]
    assert found == {7: None, 8: []}
