"""A letter that another system has written without the record that failed is refused, unless a person wants it sent."""

import pytest

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


def share(topic: str) -> Pairs:
    """Return what a share group of Kafka 4.4 says of a record that its consumer has rejected."""
    return [
        ("__dlq.errors.topic", topic.encode()),
        ("__dlq.errors.partition", b"0"),
        ("__dlq.errors.offset", b"0"),
        ("__dlq.errors.group", b"g-reject"),
        ("__dlq.errors.delivery.count", b"1"),
        ("__dlq.errors.message", b"Offset rejected by client."),
    ]


SHARE = ("topic=__dlq.errors.topic", "partition=__dlq.errors.partition", "offset=__dlq.errors.offset")


def written(cluster: Cluster, group: Group, letters: list[Sent], mapping: tuple[str, ...] = ()) -> Letters:
    """Write dead letters of another system, whose records came from the topic of outputs."""
    found = Letters(cluster, f"{group.name}.dlt", mapping)
    cluster.create(found.topic, group.output)
    cluster.produce(found.topic, letters)
    return found


@pytest.mark.parametrize("to", [False, True])
@pytest.mark.parametrize("system", ["streams", "streams with a mapping", "share"])
def test_neither_key_nor_value(group: Group, system: str, *, to: bool) -> None:
    """Nothing reaches the topic that is live; the preview counts them, and the others are sent."""
    headers = share(group.output) if system == "share" else streams(group.output)
    mapping = {"streams": (), "share": SHARE}.get(system, ("topic=__streams.errors.topic",))
    empty, whole = [Sent(None, None, headers)] * 5, [Sent(b"{}", b"k", headers)] * 2
    found = written(group.cluster, group, [*empty, *whole], mapping)
    target = ("--to", group.output) if to else ()
    previewed = found.dlq_json("redrive", "--dry-run", *target)
    assert (previewed["letters"], previewed["noContent"], previewed["targets"]) == (7, 5, {group.output: 2})
    assert "5 will be refused (no_content)" in " ".join(found.dlq("redrive", "--dry-run", *target).out.split())
    job = found.dlq_json("redrive", "--yes", "--create-topics", *target, code=1)
    assert (job["sent"], job["refused"], job["state"]) == (2, 5, "done")
    (reason,) = job["refusals"]
    assert reason.startswith("no_content: it has neither key nor value")
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
    """Its value may have been left out, and a tombstone in a live topic deletes what has the key."""
    found = written(group.cluster, group, [Sent(None, b"k", share(group.output))], SHARE)
    assert found.dlq_json("redrive", "--dry-run")["noContent"] == 1
    job = found.dlq_json("redrive", "--yes", "--create-topics", code=1)
    assert job["refusals"][0].startswith("no_content: it has no value")
    assert found.dlq_json("redrive", "--yes", "--allow-empty")["sent"] == 1


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
