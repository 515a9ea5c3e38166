"""The index of dead letters says what is in the topics, whatever happens to them and to it."""

import json
import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.dead_letters.letter import By
from tests.scenarios.cluster import Sent
from tests.scenarios.letters import now_ms
from tests.scenarios.redriving import dead_letter, died, dlq, dlq_json, in_topics, settings_of
from tests.scenarios.running import Group
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka

States = dict[str, tuple[str, str | None, int]]


def opened(group: Group, **settings: object) -> Index:
    """Open the index of a group."""
    if settings:
        group.configure(deadLetters={"index": {"path": str(group.folder / "index"), **settings}})
    return Index.open(settings_of(group))


def indexed(index: Index) -> States:
    """Bring an index up to date, and return where it says that letters stand."""
    index.refresh()
    found = {row.id: (str(row.state), row.job, row.sends) for row in index.select()}
    index.close()
    return found


def test_it_follows_the_topics(group: Group) -> None:
    """New letters, jobs and outcomes, letters of another group, deleted ones, and new partitions."""
    group.prepare()
    dead_letter(group, range(6))
    index = opened(group)
    assert indexed(index) == in_topics(settings_of(group))
    assert len(indexed(index)) == 6

    dlq_json(group, "redrive", "--id", f"{group.dead_letters}-0@0", "--id", f"{group.dead_letters}-1@1", "--yes")
    dlq_json(group, "discard", "--id", f"{group.dead_letters}-0@1", "--yes")
    assert indexed(index) == in_topics(settings_of(group))
    assert Counter(state for state, *_ in indexed(index).values()) == {"waiting": 3, "sent": 2, "discarded": 1}

    group.worker()
    until(lambda: Counter(state for state, *_ in indexed(index).values())["recovered"] == 2, "both recover")
    group.cluster.produce(group.dead_letters, [died(group, 6, of="another"), died(group, 7)])
    group.cluster.abort(group.dead_letters, [died(group, 8)])
    group.cluster.transact(group.dead_letters, [died(group, 9)])
    assert indexed(index) == in_topics(settings_of(group))
    assert dlq_json(group, "list")["ofOthers"] == 1

    group.cluster.delete_before(group.dead_letters, 0, 2)
    assert indexed(index) == in_topics(settings_of(group))
    group.cluster.grow(group.dead_letters, 3)
    group.cluster.produce(group.dead_letters, [Sent(b"x", b"k", died(group, 10).headers, 2)])
    assert indexed(index) == in_topics(settings_of(group))
    group.cluster.delete_before(group.dead_letters, 1, group.cluster.ends(group.dead_letters)[group.dead_letters, 1])
    assert indexed(index) == in_topics(settings_of(group))
    dlq_json(group, "purge", "--yes")
    assert indexed(index) == in_topics(settings_of(group))


def test_list_and_summary(group: Group) -> None:
    """Both come from the index; a second call reads nothing again, and both count the same letters."""
    group.prepare()
    dead_letter(group, range(10))
    group.cluster.produce(
        group.dead_letters,
        [
            died(group, 10, exception="KeyError"),
            died(group, 11, expires_ms=now_ms() - 1),
            died(group, 12, expires_ms=now_ms() + 3_600_000),
        ],
    )
    listed = dlq_json(group, "list", "--each")
    assert (listed["letters"], listed["expired"]) == (12, 1)
    read = {each["id"]: each for each in listed["each"]}
    (folder,) = (group.folder / "index").iterdir()
    before = sorted(each.name for each in folder.glob("letters-*"))
    assert before
    dlq_json(group, "redrive", "--exception", "KeyError", "--yes")

    document = dlq_json(group, "summary", "--by", "exception")
    kinds = {kind["exception"]: kind for kind in document["kinds"]}
    assert {name: kind["letters"] for name, kind in kinds.items()} == {"ConnectionError": 11, "KeyError": 1}
    assert kinds["KeyError"]["states"] == {"sent": 1}
    assert (kinds["KeyError"]["sent"], kinds["KeyError"]["recovered"]) == (1, 0)
    assert kinds["ConnectionError"]["expiresMs"] > now_ms()
    assert sum(kinds["ConnectionError"]["trend"]) == 11
    assert sorted(each.name for each in folder.glob("letters-*")) == before, "letters were read again"
    assert "ConnectionError: the bank is down" in dlq(group, "summary").out
    assert dlq_json(group, "summary", "--exception", "Key*")["letters"] == 1

    # Without the index the same letters are listed.
    assert dlq_json(group, "list", "--header", "dlqDeliveryFailureCause=x")["letters"] == 0
    shown = dlq_json(group, "show", f"{group.dead_letters}-0@0")
    same = {name: value for name, value in shown.items() if name in read[shown["id"]]}
    assert read[shown["id"]] == same


def test_a_topic_is_created_again(group: Group) -> None:
    """With the same name, and as many letters: the old ones are gone."""
    group.prepare()
    dead_letter(group, range(4))
    index = opened(group)
    assert {row.exception for row in _rows(index)} == {"ConnectionError"}
    group.cluster.delete(group.dead_letters)
    group.cluster.create(group.dead_letters, partitions=2)
    group.cluster.produce(group.dead_letters, [died(group, n, exception="Other") for n in range(4)])
    assert {row.exception for row in _rows(index)} == {"Other"}
    assert indexed(index) == in_topics(settings_of(group))


@pytest.mark.long  # Kafka compacts when it likes
def test_compaction_takes_letters_out_of_the_middle(group: Group) -> None:
    """A compacted topic is read anew each time."""
    group.prepare()
    group.cluster.alter(
        group.dead_letters,
        **{
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.001",
            "segment.ms": "100",
            "min.compaction.lag.ms": "0",
            "max.compaction.lag.ms": "200",
        },
    )
    index = opened(group)
    dead_letter(group, range(30))
    assert len(indexed(index)) == 30

    def compacted() -> bool:
        group.cluster.produce(group.dead_letters, [died(group, n) for n in range(14)])
        return len(in_topics(settings_of(group))) < len(indexed(index)) + 14 and len(in_topics(settings_of(group))) < 30

    until(compacted, "Kafka compacts")
    assert indexed(index) == in_topics(settings_of(group))


@pytest.mark.parametrize("how", ["cut off", "other bytes", "removed", "manifest", "another version"])
def test_a_damaged_index_is_built_anew(group: Group, how: str) -> None:
    """Whatever happened to its files."""
    group.prepare()
    dead_letter(group, range(8))
    index = opened(group)
    expected = indexed(index)
    (file,) = index.path.glob("letters-*")
    manifest = index.path / "manifest"
    if how == "cut off":
        file.write_bytes(file.read_bytes()[:-20])
    elif how == "other bytes":
        content = bytearray(file.read_bytes())
        content[len(content) // 3 :: 7] = os.urandom(len(content[len(content) // 3 :: 7]))
        file.write_bytes(content)
    elif how == "removed":
        file.unlink()
    elif how == "manifest":
        manifest.write_bytes(manifest.read_bytes()[:-30])
    else:
        manifest.write_text("{}", encoding="utf-8")
    assert indexed(index) == expected
    found = index._folder.manifest()
    assert found is not None
    assert file.name not in {each.name for each in found.files}


def test_damage_is_noticed_by_a_reader(group: Group) -> None:
    """Even if size and time of the file are as before: the query fails, the index is built anew, and answers."""
    group.prepare()
    dead_letter(group, range(8))
    index = opened(group)
    expected = indexed(index)
    (file,) = index.path.glob("letters-*")
    found = file.stat()
    file.write_bytes(bytes(found.st_size))
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert {row.id for row in index.select()} == set(expected)
    index.close()


def test_other_settings_need_another_index(group: Group) -> None:
    """Switching values off removes those that are on the disk."""
    group.prepare()
    dead_letter(group, range(4))
    with_values = opened(group)
    with_values.refresh()
    assert with_values.rows("SELECT count(value), count(key) FROM letters") == [(4, 4)]
    with_values.close()
    without = opened(group, values=False)
    without.refresh()
    assert without.rows("SELECT count(value), count(key) FROM letters") == [(0, 0)]
    without.close()
    assert without.path == with_values.path
    assert not any(b'"do"' in each.read_bytes() or b"00-1" in each.read_bytes() for each in without.path.iterdir())
    assert dlq_json(group, "list", "--key", "k1")["letters"] == 1, "the topics have the key"
    assert dlq_json(group, "summary", "--key", "k1")["letters"] == 1


def test_only_the_owner_may_read_it(group: Group) -> None:
    """The folder and each file."""
    group.prepare()
    dead_letter(group, range(4))
    index = opened(group)
    indexed(index)
    assert index.path.stat().st_mode & 0o777 == 0o700
    assert {each.stat().st_mode & 0o777 for each in index.path.iterdir()} == {0o600}


def test_writers_and_readers_together(group: Group) -> None:
    """Each reader sees a whole index at any time, never an older one than before; in the end it has all letters."""
    group.prepare()
    dead_letter(group, range(20))
    indexed(opened(group))
    ended = threading.Event()

    def read() -> int:
        seen, reads = 20, 0
        while not ended.is_set():
            with closing(opened(group)) as index:
                letters = index.summary((By.STATE,)).letters
                assert seen <= letters == len(index.select())
                seen, reads = letters, reads + 1
        return reads

    def write() -> None:
        with closing(opened(group)) as index:
            for _ in range(6):
                index.refresh()

    with ThreadPoolExecutor() as pool:
        readers, writers = [pool.submit(read) for _ in range(2)], [pool.submit(write) for _ in range(2)]
        for first in range(20, 100, 20):
            group.cluster.transact(group.dead_letters, [died(group, n) for n in range(first, first + 20)])
        try:
            for each in writers:
                each.result()
        finally:
            ended.set()
        assert all(each.result() for each in readers)
    assert len(indexed(opened(group))) == 100


def test_a_folder_that_cannot_be_written(group: Group, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Commands use a temporary index, and say so."""
    group.prepare()
    dead_letter(group, range(2))
    blocked = tmp_path / "a file"
    blocked.write_text("", encoding="utf-8")
    listed = dlq(group, "list", "--json", "--index", str(blocked))
    found: dict[str, Any] = json.loads(listed.out)
    assert found["letters"] == 2
    assert "--index" in caplog.text
    assert str(blocked) in caplog.text
    assert dlq(group, "summary", "--index", str(blocked)).code == 0


def _rows(index: Index) -> list[Any]:
    index.refresh()
    found = index.select()
    index.close()
    return found
