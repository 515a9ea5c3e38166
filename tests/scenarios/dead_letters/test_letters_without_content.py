"""A letter that another system has written without its record gets the content from there, or is refused."""

import base64
import json
from collections import Counter
from typing import NoReturn

import pytest

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.dead_letters import second_deaths
from kafka_redelivery.dead_letters.pointers import Sources
from kafka_redelivery.transport.errors import ReaderError
from tests.foreign.recorded import Letters
from tests.scenarios.cluster import Cluster, Pairs, Sent
from tests.scenarios.redriving import dead_letter, died, dlq, dlq_json
from tests.scenarios.running import Group

pytestmark = pytest.mark.kafka


def streams(topic: str) -> Pairs:
    """Return what Kafka Streams 4.4 says of a record that was too large to be produced; it keeps the user's headers."""
    return [
        ("trace-id", b"7f3a"),
        ("__streams.errors.exception", b"org.apache.kafka.common.errors.RecordTooLargeException"),
        ("__streams.errors.message", b"The message is 2000163 bytes when serialized which is larger than 1048576"),
        ("__streams.errors.stacktrace", b"org.apache.kafka.common.errors.RecordTooLargeException: The message is"),
        ("__streams.errors.topic", topic.encode()),
        ("__streams.errors.partition", b"0"),
        ("__streams.errors.offset", b"0"),
    ]


def connect(topic: str) -> Pairs:
    """Return what a sink of Kafka Connect 4.4 says of a record that it could not put."""
    return [
        ("__connect.errors.topic", topic.encode()),
        ("__connect.errors.partition", b"0"),
        ("__connect.errors.offset", b"2"),
        ("__connect.errors.connector.name", b"invoices"),
        ("__connect.errors.task.id", b"0"),
        ("__connect.errors.stage", b"TASK_PUT"),
        ("__connect.errors.class.name", b"org.apache.kafka.connect.sink.SinkTask"),
        ("__connect.errors.exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
        ("__connect.errors.exception.message", b"no such column"),
    ]


def share(topic: str, offset: int = 0, group: str = "g-reject") -> Pairs:
    """Return what a share group of Kafka 4.4 says of a record that its consumer has rejected."""
    return [
        ("__dlq.errors.topic", topic.encode()),
        ("__dlq.errors.partition", b"0"),
        ("__dlq.errors.offset", str(offset).encode()),
        ("__dlq.errors.group", group.encode()),
        ("__dlq.errors.delivery.count", b"1"),
        ("__dlq.errors.message", b"Offset rejected by client."),
    ]


SHARE = ("topic=__dlq.errors.topic", "partition=__dlq.errors.partition", "offset=__dlq.errors.offset")


def written(cluster: Cluster, group: Group, letters: list[Sent], mapping: tuple[str, ...] = ()) -> Letters:
    """Write dead letters of another system, whose records came from the topic of outputs."""
    found = Letters(cluster, f"{group.name}.dlt", mapping)
    cluster.create(found.topic, *({group.output} - cluster.topics()))
    cluster.produce(found.topic, letters)
    return found


@pytest.mark.parametrize("to", [False, True])
@pytest.mark.parametrize("system", ["streams", "streams with a mapping", "share"])
def test_neither_key_nor_value(group: Group, system: str, *, to: bool) -> None:
    """If the record is gone nothing reaches the topic that is live; the preview counts them; the others are sent."""
    headers = share(group.output) if system == "share" else streams(group.output)
    mapping = {"streams": (), "share": SHARE}.get(system, ("topic=__streams.errors.topic",))
    empty, whole = [Sent(None, None, headers)] * 5, [Sent(b"{}", b"k", headers)] * 2
    found = written(group.cluster, group, [*empty, *whole], mapping)
    target = ("--to", group.output) if to else ()
    previewed = found.dlq_json("redrive", "--dry-run", *target)
    counted, why = ("noContent", "no_content") if system == "streams with a mapping" else ("gone", "gone")
    assert (previewed["letters"], previewed[counted], previewed["targets"]) == (7, 5, {group.output: 2})
    assert f"5 will be refused ({why})" in " ".join(found.dlq("redrive", "--dry-run", *target).out.split())
    job = found.dlq_json("redrive", "--yes", "--create-topics", *target, code=1)
    assert (job["sent"], job["refused"], job["state"]) == (2, 5, "done")
    (reason,) = job["refusals"]
    assert reason.startswith(f"{why}: it has neither key nor value")
    assert [(each.key, each.value) for each in group.cluster.read_written(group.output)] == [(b"k", b"{}")] * 2
    assert found.dlq_json("list", "--state", "refused")["letters"] == 5

    allowed = found.dlq_json("redrive", "--yes", "--allow-empty", *target)
    assert (allowed["sent"], allowed["refused"], allowed["options"]["allowEmpty"]) == (5, 0, True)
    assert [each.value for each in group.cluster.read_written(group.output)].count(None) == 5


def test_a_tombstone(group: Group) -> None:
    """Connect and Streams keep the key of a record without a value, so that it was a tombstone: it is sent."""
    letters = [Sent(None, b"gone", headers(group.output)) for headers in (connect, streams)]
    found = written(group.cluster, group, [*letters, Sent(None, None, connect(group.output))])
    job = found.dlq_json("redrive", "--yes", "--create-topics", code=1)
    assert (job["sent"], job["refused"]) == (2, 1)
    assert [(each.key, each.value) for each in group.cluster.read_written(group.output)] == [(b"gone", None)] * 2


def test_a_key_alone_of_a_system_that_is_not_known(group: Group) -> None:
    """Its value may have been left out: it is that of the record with this key. A tombstone deletes what has it."""
    cluster, source = group.cluster, group.output
    cluster.create(source)
    cluster.produce(source, [Sent(b"0", b"another"), Sent(b"1", b"k")])
    found = written(cluster, group, [Sent(None, b"k", share(source, offset)) for offset in range(2)], SHARE)
    previewed = found.dlq_json("redrive", "--dry-run")
    assert (previewed["gone"], previewed["fetched"], previewed["byTimeOnly"]) == (1, 1, 0)
    job = found.dlq_json("redrive", "--yes", "--create-topics", code=1)
    assert job["refusals"][0].startswith("gone: it has no value")
    assert [(each.key, each.value) for each in cluster.read_written(source)[2:]] == [(b"k", b"1")]
    assert found.dlq_json("redrive", "--yes", "--allow-empty")["sent"] == 1


def test_the_record_is_fetched(group: Group) -> None:
    """The one at exactly that offset, with its headers; a marker's offset, a later record and another key are gone."""
    cluster, source, later_ms = group.cluster, group.output, wall_clock_ms() + 1_800_000
    headers: Pairs = [("trace-id", b"a"), ("trace-id", b"b"), ("empty", b""), ("nothing", None)]
    cluster.create(source)
    cluster.transact(source, [Sent(b"0", b"k0", headers), Sent(None, b"k1")])  # the marker has offset 2
    cluster.abort(source, [Sent(b"aborted")])  # offsets 3 and 4
    cluster.produce(source, [Sent(b"5"), Sent(None, None, headers), Sent(b"7", b"k7", (), None, later_ms)])
    cluster.produce(source, [Sent(b"%d" % number, b"k") for number in range(8, 1008)])
    cluster.wait_for_markers(source)
    kept, gone = [0, 1, 5, 6, 1007], [2, 3, 4, 7, 1008, 9_999_999]
    letters = [Sent(None, None, share(source, offset)) for offset in (*kept, *gone)]
    keyed = [Sent(None, key, streams(source)) for key in (b"another", b"k0")]  # these have a key: a tombstone
    found = written(cluster, group, [*letters, *keyed])
    before = cluster.ends(source)
    previewed = found.dlq_json("redrive", "--dry-run")
    assert (previewed["fetched"], previewed["gone"], previewed["noContent"]) == (5, 6, 0)
    assert (previewed["byTimeOnly"], previewed["fetchedBytes"]) == (5, len(b"0k0k15k1007"))
    assert (previewed["targets"], cluster.ends(source)) == ({source: 7}, before)
    job = found.dlq_json("redrive", "--yes", "--create-topics", code=1)
    assert (job["sent"], job["refused"]) == (7, 6)
    assert all(reason.startswith("gone: ") for reason in job["refusals"])
    arrived = [each for each in cluster.read_written(source) if each.header("redrive")]
    assert [(each.key, each.value) for each in arrived[:5]] == [
        (b"k0", b"0"),
        (b"k1", None),
        (None, b"5"),
        (None, None),
        (b"k", b"1007"),
    ]
    assert [list(each.headers[:-1]) for each in arrived[:4]] == [headers, [], [], headers]

    exported = [json.loads(line) for line in found.dlq("export").out.splitlines()]
    assert Counter(each.get("content") for each in exported) == {"pointer": 11, None: 2}
    fetched = [json.loads(line) for line in found.dlq("export", "--fetch").out.splitlines()]
    assert [each.get("content") for each in fetched] == ["fetched"] * 5 + ["gone"] * 6 + [None] * 2
    assert base64.b64decode(fetched[0]["value"]) == b"0"


def test_headers_that_were_left_out(group: Group) -> None:
    """A share group copies none: they are restored on demand, if key and value are those of the record."""
    cluster, source = group.cluster, group.output
    cluster.create(source)
    cluster.produce(source, [Sent(b"0", b"k0", [("trace-id", b"a")]), Sent(b"1", b"k1", [("trace-id", b"b")])])
    found = written(cluster, group, [Sent(b"0", b"k0", share(source)), Sent(b"other", b"k1", share(source, 1))])
    assert found.dlq_json("redrive", "--dry-run")["headersLost"] == 2
    assert "2 of them have lost the headers" in found.dlq("redrive", "--dry-run").out
    assert "have lost the headers" not in found.dlq("redrive", "--dry-run", "--restore-headers").out
    shown = " ".join(found.dlq("show", f"{found.topic}-0@0").out.split())
    assert "--restore-headers" in shown
    assert found.dlq_json("redrive", "--yes", "--create-topics", "--restore-headers")["sent"] == 2
    sent = [each for each in cluster.read_written(source) if each.header("redrive")]
    assert [(each.value, each.header("trace-id")) for each in sent] == [(b"0", "a"), (b"other", None)]


@pytest.mark.parametrize("copied", [True, False])
def test_a_share_group_rejects_it_again(group: Group, *, copied: bool) -> None:
    """Its letter has no mark, but names the record that has it: dead again is known, and too often goes to parking."""
    cluster, source = group.cluster, group.output
    cluster.create(source)
    cluster.produce(source, [Sent(b"0", b"k0"), Sent(b"1", b"k1")])
    content = {True: (b"0", b"k0"), False: (None, None)}[copied]
    found = written(cluster, group, [Sent(*content, share(source))])
    found.dlq_json("redrive", "--yes", "--create-topics")
    (again,) = [each for each in cluster.read_written(source) if each.header("redrive")]
    cluster.produce(found.topic, [Sent(*content, share(source, again.offset)), Sent(*content, share(source, 1))])
    states = [each["state"] for each in found.dlq_json("list", "--each")["each"]]
    assert sorted(states) == ["dead_again", "waiting", "waiting"]
    assert found.dlq_json("jobs")["jobs"][0]["deadAgain"] == 1
    previewed = found.dlq_json("redrive", "--dry-run", "--max-redrives", "1")
    assert (previewed["parking"], previewed["targets"]) == (1, {source: 1})
    job = found.dlq_json("redrive", "--yes", "--max-redrives", "1")
    assert (job["sent"], job["parked"]) == (1, 1)
    (parked,) = cluster.read_written(f"{found.topic}.redelivery.parked")
    assert (parked.key, parked.value, parked.header("__dlq.errors.topic")) == (b"k0", b"0", source)


def test_a_source_cannot_be_read(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """Letters are listed as sent until it can; what was found is kept, and read again only with new letters or jobs."""
    cluster, source = group.cluster, group.output
    cluster.create(source)
    cluster.produce(source, [Sent(b"0", b"k0")])
    found = written(cluster, group, [Sent(None, None, share(source))])
    found.dlq_json("redrive", "--yes", "--create-topics")
    (again,) = [each for each in cluster.read_written(source) if each.header("redrive")]
    cluster.produce(found.topic, [Sent(None, None, share(source, again.offset))])

    def refuse(*_: object, **__: object) -> NoReturn:
        raise ReaderError("the partition has no leader")

    with monkeypatch.context() as broken:
        broken.setattr(Sources, "find", refuse)
        listed = found.dlq("list", "--each", "--json")
        assert [each["state"] for each in json.loads(listed.out)["each"]] == ["sent", "waiting"]
        jobs = found.dlq_json("jobs")["jobs"]
        assert jobs[0]["deadAgain"] == 0
    assert [each["state"] for each in found.dlq_json("list", "--each")["each"]] == ["dead_again", "waiting"]
    with monkeypatch.context() as broken:
        broken.setattr(second_deaths, "read_between", refuse)
        assert [each["state"] for each in found.dlq_json("list", "--each")["each"]] == ["dead_again", "waiting"]
    cluster.produce(found.topic, [Sent(None, None, share(source, again.offset))])
    assert [each["state"] for each in found.dlq_json("list", "--each")["each"]] == ["dead_again", "waiting", "waiting"]


def test_another_share_group_rejects_it(group: Group) -> None:
    """Each group that reads the topic gets the copy. Its letter in the same topic is not the death of the first."""
    cluster, source = group.cluster, group.output
    cluster.create(source)
    cluster.produce(source, [Sent(b"0", b"k0")])
    found = written(cluster, group, [Sent(None, None, share(source))])
    found.dlq_json("redrive", "--yes", "--create-topics")
    (again,) = [each for each in cluster.read_written(source) if each.header("redrive")]
    cluster.produce(found.topic, [Sent(None, None, share(source, again.offset, "g-other"))])
    assert [each["state"] for each in found.dlq_json("list", "--each")["each"]] == ["sent", "waiting"]


def test_a_transaction_is_open(group: Group) -> None:
    """A record in it or behind it is not gone: it is sent after its end, and a preview of both options counts right."""
    cluster, source = group.cluster, group.output
    cluster.create(source)
    cluster.produce(source, [Sent(b"0", b"k0", [("trace-id", b"a")])])
    producer = cluster.begin(source, [Sent(b"1")])
    letters = [Sent(None, None, share(source, 1)), Sent(None, None, share(source, 100))]
    found = written(cluster, group, [*letters, Sent(b"0", b"k0", share(source))])
    both, names = ("--allow-empty", "--restore-headers"), [f"{found.topic}-0@{number}" for number in range(3)]
    previewed = found.dlq_json("redrive", "--dry-run", *both)
    assert (previewed["targets"], previewed["fetched"], previewed["headersLost"]) == ({source: 3}, 0, 0)
    assert found.dlq_json("redrive", "--dry-run")["gone"] == 2
    exported = [json.loads(line) for line in found.dlq("export", "--fetch").out.splitlines()]
    assert [each.get("content") for each in exported] == ["pointer", "gone", None]
    job = found.dlq_json("redrive", "--yes", "--create-topics", "--id", names[0], "--id", names[1], code=1)
    open_, gone = sorted(job["refusals"], key=lambda each: each.startswith("gone: "))
    assert open_.endswith("is in or behind a transaction that is still open; send it again when that has ended")
    assert gone.startswith("gone: ")
    producer.commit_transaction()
    again = found.dlq_json("redrive", "--yes", *both, "--id", names[2])
    assert again["sent"] == 1
    assert cluster.read_written(source)[-1].header("trace-id") == "a"
    assert found.dlq_json("redrive", "--yes", code=1)["sent"] == 1
    assert cluster.read_written(source)[-1].value == b"1"


def test_ours(group: Group) -> None:
    """A worker writes what it has read, so that a letter with neither is sent as ever."""
    group.prepare()
    dead_letter(group, range(2))
    empty = died(group, 2)
    group.cluster.produce(group.dead_letters, [Sent(None, None, empty.headers, 0)])
    assert dlq_json(group, "redrive", "--dry-run")["noContent"] == 0
    assert dlq_json(group, "redrive", "--yes")["sent"] == 3
    assert [each.value for each in group.cluster.read(group.ready)].count(None) == 1
    refused = dlq(group, "redrive", "--yes", "--allow-empty")
    assert refused.code == 1
    assert "--allow-empty is for dead letters of other systems" in " ".join(refused.err.split())
