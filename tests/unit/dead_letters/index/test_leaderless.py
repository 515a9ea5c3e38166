"""A partition without a leader in a refresh of the index: what is known of it stays, and is read on later."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from kafka_redelivery.dead_letters.index import index as opening
from kafka_redelivery.dead_letters.index import refresh as refreshing
from kafka_redelivery.dead_letters.index.files import VERSION, Basis, IndexFolder
from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.admin import calls
from kafka_redelivery.transport.admin.errors import NoLeaderError
from kafka_redelivery.transport.admin.partition_offsets import PartitionOffsets
from kafka_redelivery.transport.admin.topics import Identities, TopicIdentity
from kafka_redelivery.transport.assigned_reader import ReadBatch
from kafka_redelivery.transport.protocols import Message, Partition
from tests.unit.consumers.records import Fetched
from tests.unit.dead_letters.index.stored import TOPIC

SETTINGS = load_settings("group: billing\nkafka: {bootstrap.servers: 'localhost:1'}\nsources: [{topic: orders}]\n")
JOBS, ACTIONS = SETTINGS.naming().jobs_topic(), SETTINGS.naming().actions_topic()
LOST = Partition(TOPIC, 1)


@dataclass
class Cluster:
    """Dead letters in two partitions, one partition of actions, and no job."""

    ends: dict[Partition, int] = field(
        default_factory=lambda: {Partition(TOPIC, 0): 2, LOST: 3, Partition(JOBS, 0): 0, Partition(ACTIONS, 0): 0}
    )
    calls: None = None
    elections: int = 0
    """How often the topics are described until all partitions have a leader."""

    leaderless: set[Partition] = field(default_factory=set)
    read: list[Partition] = field(default_factory=list)
    """The partition of each record that was read."""

    def identities(self, *_: object, **__: object) -> Identities:
        """Describe the topics."""
        self.elections -= 1
        if self.elections == 0:
            self.leaderless = set()
        return Identities(
            cluster="c",
            topics={
                name: TopicIdentity(
                    id=name,
                    partitions=sum(each.topic == name for each in self.ends),
                    compacted=False,
                    leaderless=frozenset(each.number for each in self.leaderless if each.topic == name),
                )
                for name in (TOPIC, JOBS, ACTIONS)
            },
        )

    def last_stable_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Fail as Kafka does if one has no leader."""
        asked = list(partitions)
        if unled := self.leaderless.intersection(asked):
            raise NoLeaderError("read the offsets of partitions", sorted(unled))
        return {each: self.ends[each] for each in asked}

    high_watermarks = last_stable_offsets

    def log_start_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Nothing was deleted."""
        return dict.fromkeys(self.last_stable_offsets(partitions), 0)

    def batches(
        self, _: object, __: object, starts: Mapping[Partition, int], ends: Mapping[Partition, int]
    ) -> Iterator[ReadBatch]:
        """Yield the records between these offsets."""
        for each, end in ends.items():
            offsets = [*range(starts.get(each, 0), end)]
            if offsets:
                headers = [("_AMQ_ORIG_ADDRESS", b"orders"), ("_AMQ_ORIG_QUEUE", b"billing")]
                messages = [Fetched(*each, offset, pairs=[*headers]) for offset in offsets]
                self.read += [each] * len(messages)
                places = [(each.topic, each.number)] * len(messages)
                yield ReadBatch(cast("list[Message]", messages), places, offsets, {each: end})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Nothing is lost yet."""
    found = Cluster()
    monkeypatch.setattr(refreshing, "identities", found.identities)
    monkeypatch.setattr(refreshing, "read_batches", found.batches)
    monkeypatch.setattr(opening, "identities", found.identities)
    monkeypatch.setattr(opening, "PartitionOffsets", lambda _: found)
    monkeypatch.setattr(calls, "_ELECTION_S", 0.0)
    monkeypatch.setattr(calls, "_RETRY_INTERVAL_S", 0.0)
    return found


def _ids(folder: Path, cluster: Cluster, *, skip: bool = True) -> tuple[list[str], Index]:
    basis = Basis(version=VERSION, cluster="c", group="billing", values=True, class_only=False)
    index = Index(SETTINGS, basis, IndexFolder(folder / "index"))
    index.refresh(offsets=cast("PartitionOffsets", cluster), skip_leaderless=skip)
    found = sorted(each.id for each in index.select())
    index.close()
    return found, index


def test_what_was_known_stays_and_the_next_refresh_goes_on_there(tmp_path: Path, cluster: Cluster) -> None:
    """The others are read; no letter is forgotten, and none is read twice."""
    every, index = _ids(tmp_path, cluster)
    assert (len(every), index.unread, index.lacking) == (5, frozenset(), "")
    cluster.leaderless = {LOST}
    cluster.ends |= {Partition(TOPIC, 0): 4, LOST: 6}
    known, index = _ids(tmp_path, cluster)
    assert set(known) == {*every, f"{TOPIC}-0@2", f"{TOPIC}-0@3"}
    assert index.unread == {LOST}
    assert index.lacking.startswith(f"{LOST} has no leader and cannot be read: ")
    cluster.leaderless = set()
    assert len(_ids(tmp_path, cluster)[0]) == 10
    assert len(cluster.read) == 10


def test_an_election_is_waited_for(tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a moment, and then nothing lacks."""
    monkeypatch.setattr(calls, "_ELECTION_S", 60.0)
    cluster.leaderless, cluster.elections = {LOST}, 3
    found, index = _ids(tmp_path, cluster)
    assert (len(found), index.unread) == (5, frozenset())


def test_a_partition_that_was_never_read(tmp_path: Path, cluster: Cluster) -> None:
    """It is not taken for an empty one."""
    cluster.leaderless = {LOST}
    assert _ids(tmp_path, cluster)[0] == [f"{TOPIC}-0@0", f"{TOPIC}-0@1"]
    cluster.leaderless = set()
    assert len(_ids(tmp_path, cluster)[0]) == 5


@pytest.mark.parametrize("topic", [JOBS, ACTIONS])
def test_jobs_and_actions_stay_as_they_were(tmp_path: Path, cluster: Cluster, topic: str) -> None:
    """Letters are read without them."""
    cluster.leaderless = {Partition(topic, 0)}
    found, index = _ids(tmp_path, cluster)
    assert (len(found), index.unread) == (5, frozenset({Partition(topic, 0)}))


def test_who_changes_something_needs_all_partitions(tmp_path: Path, cluster: Cluster) -> None:
    """The error names what cannot be read."""
    cluster.leaderless = {LOST}
    with pytest.raises(NoLeaderError, match=f"{LOST} has no leader; start a broker"):
        _ids(tmp_path, cluster, skip=False)


def test_a_warning_names_it(tmp_path: Path, cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """Commands print it on standard error."""
    cluster.leaderless = {LOST}
    with Index.refreshed(SETTINGS, path=tmp_path, skip_leaderless=True) as index:
        assert caplog.messages == [index.lacking]
