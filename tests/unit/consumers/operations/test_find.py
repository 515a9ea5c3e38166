"""`redelivery find` finds a record by its key and by a header, also a finished one, and names what it has not read."""

import json
from collections.abc import Iterable, Iterator, Mapping

import pytest

from kafka_redelivery.consumers.operations import find as finding
from kafka_redelivery.consumers.operations import waiting
from kafka_redelivery.consumers.operations.find import Found, State, Wanted, find
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.errors import OptionError
from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.transport.admin.cluster_admin import ListedTopics
from kafka_redelivery.transport.protocols import Message, Partition
from tests.unit.consumers.records import BORN, lineage, record, waiting_headers

SETTINGS = load_settings(
    "group: billing\nkafka: {bootstrap.servers: '127.0.0.1:1'}\nsources: [{topic: orders}]\njournal: true"
)
ORDERS, TIER, READY = Partition("orders", 0), Partition("billing.retry.mixed", 0), Partition("billing.ready.orders", 0)
JOURNAL = Partition("billing.journal", 0)


class Topics:
    """A cluster with one partition of each topic, whose records begin at offset 0."""

    calls = None

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.records: dict[Partition, list[Message]] = {each: [] for each in (ORDERS, TIER, READY, JOURNAL)}
        self.finished: dict[Partition, Checkpoint] = {}
        self.leaderless: set[Partition] = set()
        monkeypatch.setattr(finding, "ClusterAdmin", lambda _: self)
        monkeypatch.setattr(finding, "PartitionOffsets", lambda _: self)
        for module in (finding, waiting):
            monkeypatch.setattr(module, "read", self._read)
            monkeypatch.setattr(module, "topic_marks", lambda *_: {})

    def add(self, partition: Partition, key: str, headers: list[tuple[str, bytes | None]] | None = None) -> int:
        """Write a record, and return its offset."""
        offset = len(self.records[partition])
        made = record(offset, key=key.encode(), headers=headers or [], topic=partition.topic)
        self.records[partition].append(made)
        return offset

    def led_topics(self, _: object) -> ListedTopics:
        return ListedTopics({each.topic: each.number + 1 for each in sorted(self.records)}, frozenset(self.leaderless))

    def log_start_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return dict.fromkeys(partitions, 0)

    def last_stable_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        asked = list(partitions)
        assert not self.leaderless.intersection(asked), "Kafka would say nothing of them"
        return {each: len(self.records[each]) for each in asked}

    high_watermarks = last_stable_offsets

    def committed(self, _group: str, partitions: Iterable[Partition]) -> dict[Partition, Checkpoint]:
        return {each: self.finished[each] for each in partitions if each in self.finished}

    def _read(
        self, _settings: object, ranges: Mapping[Partition, tuple[int, int]], limit: int, *_: object, **__: object
    ) -> Iterator[Message]:
        ends = waiting.shares(ranges, limit)
        for partition, (first, _end) in ranges.items():
            yield from self.records[partition][first : ends[partition]]


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> Topics:
    """Empty topics."""
    return Topics(monkeypatch)


def _found(text: str = "", header: str = "", limit: int = 1000) -> list[tuple[str, State, str]]:
    search = find(SETTINGS, Wanted.of(SETTINGS, text, header), limit, lambda *_: None, dead_letters=False)
    return [(each.message_id, each.state, each.cause) for each in search.found]


def _finish(topics: Topics, *, committed: int, above: Iterable[int] = ()) -> None:
    """Commit an offset, and finished records above it."""
    progress = Progress(committed)
    offsets = list(above)
    for offset in range(committed, max(offsets, default=-1) + 1):
        progress.track(offset)
    progress.complete(offsets)
    topics.finished[ORDERS] = progress.checkpoint()


def _journal(topics: Topics, **outcomes: list[list[int]]) -> None:
    entry = record(len(topics.records[JOURNAL]), json.dumps({"v": 1, **outcomes}).encode(), topic=JOURNAL.topic)
    entry.key_bytes = b"orders-0"
    topics.records[JOURNAL].append(entry)


def test_finished_records_have_their_key_in_the_source_alone(topics: Topics) -> None:
    """Below the committed offset and above it; the journal says how each ended, as far as it knows."""
    for key in ("a", "b", "a", "b", "a", "a"):
        topics.add(ORDERS, key)
    _finish(topics, committed=3, above=[4])
    _journal(topics, acked=[[0, 1]], discarded=[[4, 4]])
    assert _found("a") == [
        ("orders-0@5", State.SOURCE, ""),
        ("orders-0@0", State.DONE, "acked"),
        ("orders-0@2", State.FINISHED, ""),
        ("orders-0@4", State.DONE, "discarded"),
    ]
    [first] = [each for each in find(SETTINGS, Wanted("a"), 9, lambda *_: None).found if each.message_id[-1] == "0"]
    assert first.written_ms == BORN


def test_a_record_that_waits_is_not_also_finished(topics: Topics) -> None:
    """Its source record is finished, because the tier has it now."""
    topics.add(ORDERS, "a")
    _finish(topics, committed=1)
    topics.add(TIER, "a", waiting_headers(lineage(0, partition=0)))
    assert _found("a") == [("orders-0@0", State.TIER, "")]


def test_a_header_finds_what_carries_it(topics: Topics) -> None:
    """Name and value have to be equal; an empty value is one."""
    topics.add(ORDERS, "a", [("tenant", b"acme"), ("empty", b"")])
    topics.add(ORDERS, "b", [("tenant", b"other")])
    assert _found(header="tenant=acme") == [("orders-0@0", State.SOURCE, "")]
    assert _found(header="empty=") == [("orders-0@0", State.SOURCE, "")]
    assert _found(header="tenant=none") == [("", State.UNKNOWN, "")]


@pytest.mark.parametrize("lost", [TIER, READY, ORDERS])
@pytest.mark.parametrize("text", ["a", "orders-0@0"])
def test_a_partition_without_a_leader_is_named(topics: Topics, lost: Partition, text: str) -> None:
    """A record that is finished in its source may be there, so nothing else is said of it."""
    topics.add(ORDERS, "a")
    _finish(topics, committed=1)
    topics.leaderless = {lost}
    search = find(SETTINGS, Wanted.of(SETTINGS, text), 1000, lambda *_: None, dead_letters=False)
    assert search.found == (Found("", State.UNKNOWN),)
    assert search.unread[-1].startswith(f"{lost} has no leader and cannot be read: the record may be there; start a")


def test_another_partition_of_the_source_hides_nothing(topics: Topics) -> None:
    """An id names its partition."""
    topics.add(ORDERS, "a")
    _finish(topics, committed=1)
    topics.records[other := Partition("orders", 1)] = []
    topics.leaderless = {other}
    assert _found("orders-0@0") == [("orders-0@0", State.FINISHED, "")]
    assert _found("a") == [("", State.UNKNOWN, "")]


@pytest.mark.parametrize("text", ["DLQ.orders-0@3", "ordrs-0@3"])
def test_an_id_of_a_topic_that_is_no_source_is_taken_as_a_key(topics: Topics, text: str) -> None:
    """And the answer says so, if there is no such key."""
    note = f"{text[:-4]} is no source of the configuration, so this was searched for as a key"
    search = find(SETTINGS, Wanted.of(SETTINGS, text), 1000, lambda *_: None, dead_letters=False)
    assert search.unread[-1].startswith(note)
    topics.add(ORDERS, text)
    assert _found(text) == [("orders-0@0", State.SOURCE, "")]
    search = find(SETTINGS, Wanted.of(SETTINGS, text), 1000, lambda *_: None, dead_letters=False)
    assert not any(each.startswith(note) for each in search.unread)


def test_a_delivery_note_tells_what_is_in_a_handler(topics: Topics) -> None:
    """Only records below its end, which are not finished."""
    for _ in range(4):
        topics.add(ORDERS, "a")
    progress = Progress(0, author=7)
    for offset in range(2):
        progress.track(offset)
    progress.complete([0])
    progress.note_end = 2
    topics.finished[ORDERS] = progress.checkpoint()
    states = {name: state for name, state, _ in _found("a")}
    assert [states[f"orders-0@{n}"] for n in range(4)] == [
        State.FINISHED,
        State.HANDLER,
        State.SOURCE,
        State.SOURCE,
    ]
    assert _found("orders-0@1") == [("orders-0@1", State.HANDLER, "")]


def test_what_was_not_read_is_named(topics: Topics) -> None:
    """The newest finished records are read, and no more than the limit."""
    for number in range(30):
        topics.add(ORDERS, "old" if number < 20 else "new")
    _finish(topics, committed=30)
    search = find(SETTINGS, Wanted("old"), 10, lambda *_: None, dead_letters=False)
    assert [each.state for each in search.found] == [State.UNKNOWN]
    assert "finished records: only 10 of about 30 were read; raise --limit" in search.unread


@pytest.mark.parametrize(("text", "header"), [("", ""), ("a", "tenant=acme"), ("", "tenant"), ("", "=acme")])
def test_a_search_names_one_thing(text: str, header: str) -> None:
    """A key or an id, or a header with its name."""
    with pytest.raises(OptionError):
        Wanted.of(SETTINGS, text, header)


def test_an_id_of_another_topic_is_a_key() -> None:
    """Any text may be one."""
    assert Wanted.of(SETTINGS, "other-0@1") == Wanted("other-0@1")
    assert Wanted.of(SETTINGS, "orders-0@1").origin == (ORDERS, 1)
