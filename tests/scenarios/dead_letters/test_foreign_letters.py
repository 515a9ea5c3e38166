"""Dead letters of other systems are listed, selected and sent, each exactly once, to where their headers say."""

import base64
import json
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from kafka_redelivery.dead_letters.foreign.systems import Recognition
from kafka_redelivery.dead_letters.source import OtherSystem
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.redrive.job import JobOptions
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.foreign.recorded import Letters, recorded, replay
from tests.scenarios.cluster import Cluster, Seen, Sent
from tests.scenarios.redriving import created

pytestmark = pytest.mark.kafka

TOPICS = [
    ("spring", "orders-dlt"),
    ("spring", "numbers-dlt"),
    ("spring", "payments-dlt"),
    ("connect", "orders-dlq"),
    ("streams", "totals-dlq"),
]


@pytest.fixture(scope="module")
def empty() -> Iterator[Cluster]:
    """A broker of its own: the recorded headers name topics such as ``orders``."""
    with EmbeddedKafka() as kafka:
        yield Cluster(kafka.bootstrap_servers)


@pytest.fixture
def broker(empty: Cluster) -> Iterator[Cluster]:
    """The broker, without topics of another test."""
    yield empty
    for topic in topics(empty):
        empty.delete(topic)


def topics(broker: Cluster) -> set[str]:
    """Return the topics that are not Kafka's own, which appear when they are needed."""
    return {topic for topic in broker.topics() if not topic.startswith("__")}


def content(record: Seen) -> tuple[object, ...]:
    """Return what a record says, without the mark of a redrive."""
    headers = tuple(pair for pair in record.headers if pair[0] != "redrive")
    return record.topic, record.partition, record.key, record.value, headers


@pytest.mark.parametrize(("system", "topic"), TOPICS)
def test_recorded_letters(broker: Cluster, system: str, topic: str) -> None:
    """Each arrives once as the record that the system had read: same topic, partition, key, value and headers."""
    found = replay(broker, system, topic)
    before = topics(broker)
    letters = found.dlq_json("list", "--each")["each"]
    sources = [found.inputs[letter["sourceId"]] for letter in letters]
    assert Counter((each.key, each.value) for each in sources) == Counter(
        (each.key, each.value) for each in found.letters
    )
    assert {letter["origin"] for letter in letters} == {each.topic for each in sources}
    assert all(letter["exception"] and letter["message"] and letter["reason"] for letter in letters if letter["key"])
    previewed = found.dlq_json("redrive", "--dry-run")
    assert previewed["targets"] == Counter(each.topic for each in sources)
    assert found.dlq_json("jobs")["jobs"] == []
    refused = found.dlq("redrive", "--yes")
    assert refused.code == exit_codes.USAGE
    assert "--create-topics" in refused.err
    assert topics(broker) == before, "nothing is created unasked"

    job = found.dlq_json("redrive", "--yes", "--create-topics")
    assert (job["state"], job["sent"], job["refused"]) == ("done", len(sources), 0)
    assert topics(broker) - before == {f"{topic}.redelivery.{name}" for name in ("jobs", "actions", "parked")}
    arrived = broker.read_written(*{each.topic for each in sources})
    assert Counter(map(content, arrived)) == Counter(map(content, sources))
    assert all(str(each.header("redrive")).startswith(f"{job['job']}/") for each in arrived)
    assert found.dlq_json("list", "--state", "sent")["letters"] == len(sources)
    assert found.dlq_json("redrive", "--yes")["job"] is None
    assert found.dlq_json("resume", job["job"])["sent"] == len(sources)
    assert len(broker.read_written(*{each.topic for each in sources})) == len(sources)


SINCE_2026 = [
    ("share", "dlq.s-rejectcopy"),
    ("smallrye", "q-dlq2"),
    ("smallrye", "q-dlq-again"),
    ("cloud_stream", "error.c-orders.c-billing"),
    ("streams44", "st-dlq-orders"),
    ("connect44", "kc-dlq-put"),
]


@pytest.mark.parametrize(("recording", "topic"), SINCE_2026)
def test_recorded_in_2026(broker: Cluster, recording: str, topic: str) -> None:
    """Listed, shown, exported, and sent as what the system had read; where that dies again, both letters say so."""
    letters = [each for each in recorded(recording) if each.topic == topic]
    broker.create(topic, partitions=5, config={"retention.ms": "-1"})
    sent = [Sent(each.value, each.key, each.headers, each.partition, each.timestamp_ms) for each in letters]
    broker.produce(topic, sent)
    found = Letters(broker, topic)
    listed = found.dlq_json("list", "--each")["each"]
    (origin,) = {each["origin"] for each in listed}
    broker.create(origin, partitions=3)
    assert all(each["sourceId"].startswith(f"{origin}-") and each["reason"] for each in listed)
    shown = found.dlq_json("show", listed[0]["id"])
    assert (shown["system"], shown["sourceId"]) == (listed[0]["system"], listed[0]["sourceId"])
    exported = [json.loads(line) for line in found.dlq("export").out.splitlines()]
    assert Counter(base64.b64decode(each["value"] or "") for each in exported) == Counter(
        each.value or b"" for each in letters
    )
    assert found.dlq_json("redrive", "--yes", "--create-topics")["sent"] == len(letters)
    arrived = broker.read_written(origin)
    users = [tuple(pair for pair in each.headers if pair[0] in USERS) for each in letters]
    assert Counter((each.key, each.value, each.headers[:-1]) for each in arrived) == Counter(
        (each.key, each.value, users[number]) for number, each in enumerate(letters)
    )
    assert {f"{each.topic}-{each.partition}" for each in arrived} == {
        each["sourceId"].partition("@")[0] for each in listed
    }

    broker.produce(topic, [dead_again(each, letters[0], recording) for each in arrived])
    states = Counter(each["state"] for each in found.dlq_json("list", "--each")["each"])
    assert states == {"dead_again": len(letters), "waiting": len(letters)}


USERS = {"trace-id", "content-type", "empty", "nothing", "bin"}


def dead_again(record: Seen, letter: Seen, recording: str) -> Sent:
    """Return the dead letter that the system would write of a record, with the failure of another one."""
    failure = [pair for pair in letter.headers if pair[0] not in USERS]
    match recording:
        case "share":  # it copies no header, and names the record
            place = {"__dlq.errors.partition": record.partition, "__dlq.errors.offset": record.offset}
            headers = [(name, str(place[name]).encode() if name in place else value) for name, value in failure]
        case "smallrye":
            headers = [*failure, *record.headers]
        case _:
            headers = [*record.headers, *failure]
    return Sent(record.value, record.key, headers, 0)


def test_what_spring_says(broker: Cluster) -> None:
    """The listener's own exception without Spring's wrapper, numbers in decimal, selections, and a second death."""
    found = replay(broker, "spring", "orders-dlt")
    shown = found.dlq_json("show", "orders-dlt-1@0")
    assert (shown["group"], shown["exception"], shown["message"]) == (
        "billing",
        "java.lang.IllegalStateException",
        "cannot pay",
    )
    assert (shown["sourceId"], shown["reason"]) == ("orders-1@0", "failed")
    assert shown["headers"]["kafka_dlt-original-timestamp"] == "1700000000001"
    assert "kafka_dlt-original-offset: 0" in found.dlq("show", "orders-dlt-1@0").out
    for arguments, expected in (
        (["--exception", "*Argument*"], 1),
        (["--origin", "orders", "--key", "k3"], 1),
        (["--id", "orders-1@2"], 1),
        (["--header", "kafka_dlt-original-consumer-group=billing"], 6),
        (["--fingerprint", shown["fingerprint"]], 1),
        (["--reason", "undecodable"], 0),
    ):
        assert found.dlq_json("list", *arguments)["letters"] == expected, arguments
    (again,) = found.dlq_json("list", "--each", "--key", "k9")["each"]
    assert again["redrives"] == 1, "Spring copies the mark of the record that died again"
    job = found.dlq_json("redrive", "--yes", "--create-topics", "--max-redrives", "1")
    assert (job["sent"], job["parked"]) == (5, 1)
    (parked,) = broker.read_written("orders-dlt.redelivery.parked")
    assert parked.key == b"k9"
    assert found.dlq_json("purge", "--yes")["removed"] == 0, "what became of them is not known"
    assert found.dlq_json("discard", "--yes", "--state", "sent")["setAside"] == 5
    assert found.dlq_json("purge", "--yes")["removed"] == 6


def test_dead_again(broker: Cluster) -> None:
    """A record that Spring dead-letters again with its mark: the first letter is done, the second can be sent."""
    found = replay(broker, "spring", "orders-dlt")
    job = found.dlq_json("redrive", "--yes", "--create-topics", "--key", "k0")["job"]
    (sent,) = broker.read_written("orders")
    broker.produce("orders-dlt", [Sent(sent.value, sent.key, [*found.letters[0].headers, *sent.headers[-1:]], 0)])
    letters = {each["id"]: each for each in found.dlq_json("list", "--each", "--key", "k0")["each"]}
    assert {name: (each["state"], each["redrives"]) for name, each in letters.items()} == {
        "orders-dlt-0@0": ("dead_again", 0),
        "orders-dlt-0@2": ("waiting", 1),
    }
    (listed,) = found.dlq_json("jobs")["jobs"]
    assert (listed["job"], listed["deadAgain"], listed["unknown"]) == (job, 1, 0)
    assert found.dlq_json("show", "orders-dlt-0@0")["history"][0]["state"] == "dead_again"
    assert found.dlq_json("redrive", "--yes", "--key", "k0")["sent"] == 1
    assert found.dlq_json("purge", "--yes")["removed"] == 1


def test_a_forged_mark(broker: Cluster) -> None:
    """Each producer of the source can set it: it counts only for a letter with the same key and value."""
    found = replay(broker, "spring", "orders-dlt")
    job = found.dlq_json("redrive", "--yes", "--create-topics", "--key", "k0")["job"]
    (sent,) = broker.read_written("orders")
    broker.wait_for_markers("orders-dlt.redelivery.jobs", "orders-dlt.redelivery.actions")
    before = found.dlq_json("list", "--each")["letters"]
    forged = [
        ("redrive", f"{job}/{number}@{offset}/{sends}".encode())
        for number, offset, sends in ((0, 0, 1), (0, 2, 1), (7, 0, 1), (0, 999_999, 1), (0, 0, 999_999))
    ]
    headers = found.letters[0].headers
    broker.produce("orders-dlt", [Sent(b"another value", sent.key, [*headers, mark], 0) for mark in forged])
    broker.produce("orders-dlt", [Sent(sent.value, b"another key", [*headers, forged[0]], 0)])
    letters = {each["id"]: each["state"] for each in found.dlq_json("list", "--each")["each"]}
    assert len(letters) == before + len(forged) + 1
    assert letters.pop("orders-dlt-0@0") == "sent"
    assert set(letters.values()) == {"waiting"}
    assert found.dlq_json("purge", "--yes")["removed"] == 0
    assert found.dlq_json("jobs")["jobs"][0]["deadAgain"] == 0
    # A mark that says that its record was sent often enough: this one goes to the parking topic, no other one does.
    again = found.dlq_json("redrive", "--yes", "--header", f"redrive={forged[-1][1].decode()}")
    assert (again["sent"], again["parked"]) == (0, 1)


def test_what_is_refused(broker: Cluster) -> None:
    """A target that is missing or internal, options of our own letters, and letters that name no topic."""
    found = replay(broker, "spring", "orders-dlt")
    to_itself = found.dlq_json("redrive", "--dry-run", "--to", "orders-dlt", code=1)["message"]
    assert "--to orders-dlt is a dead-letter topic" in to_itself
    assert "--keep-attempts" in found.dlq_json("redrive", "--dry-run", "--keep-attempts", code=1)["message"]
    assert "--header" in found.dlq_json("list", "--of-group", "billing", code=1)["message"]
    assert found.dlq_json("summary")["letters"] == found.dlq_json("list")["letters"]
    missing = found.dlq_json("show", "orders-0@5", code=1)["message"]
    assert "`redelivery dlq list --each` prints ids, and with --id orders-0@5" in missing
    for usage in (["import", "letters.jsonl", "--yes"], ["list", "--set", "limits.batch=7"]):
        assert found.dlq(*usage).code == exit_codes.USAGE, usage
    broker.delete("orders")
    assert "no topic orders" in found.dlq_json("redrive", "--dry-run", code=1)["message"]
    broker.delete("orders-dlt")
    gone = found.dlq_json("list", code=1)["message"]
    assert "there is no dead-letter topic orders-dlt, or none may be described; correct --topic" in gone


def test_a_letter_that_two_systems_claim(broker: Cluster) -> None:
    """One of SmallRye whose record had old headers of Spring is not sent to the topic that these name."""
    broker.create("q-dlq2", "q-orders2", "unrelated", partitions=3)
    own = next(each for each in recorded("smallrye") if each.topic == "q-dlq2")
    old = ("kafka_dlt-original-topic", b"unrelated")
    broker.produce(
        "q-dlq2", [Sent(own.value, own.key, [*own.headers, old], 0), Sent(own.value, own.key, own.headers, 1)]
    )
    found = Letters(broker, "q-dlq2")
    assert found.dlq_json("show", "q-dlq2-0@0")["system"] == "smallrye, spring"
    unclear = found.dlq_json("redrive", "--dry-run", code=exit_codes.FAILED)
    assert (unclear["claimed"], unclear["targets"]) == ({"smallrye, spring": 1}, {"q-orders2": 1})
    assert "--system NAME redrive" in found.dlq("show", "q-dlq2-0@0").out
    job = found.dlq_json("redrive", "--yes", "--create-topics", "--to", "unrelated", code=exit_codes.FAILED)
    assert (job["sent"], job["refused"]) == (1, 1)
    assert "say which one with --system" in job["refusals"][0]
    said = Letters(broker, "q-dlq2", system="smallrye")
    assert said.dlq_json("redrive", "--yes")["sent"] == 1
    (sent,) = broker.read_written("q-orders2")
    assert [name for name, _ in sent.headers] == ["kafka_dlt-original-topic", "redrive"]


@pytest.mark.long
def test_targets_of_a_megabyte(broker: Cluster) -> None:
    """They are refused, and the job goes on: what it says about them fits into one record."""
    found = replay(broker, "spring", "orders-dlt")
    characters = random.Random(0)  # noqa: S311 - they are hardly compressed
    forged = ["".join(map(chr, characters.choices(range(0x4E00, 0xA000), k=250_000))).encode() for _ in range(2)]
    for each in forged:
        broker.produce("orders-dlt", [Sent(b"1", b"k", [("kafka_dlt-original-topic", b"__" + each)], 0)])
    job = found.dlq_json("redrive", "--yes", "--create-topics", code=exit_codes.FAILED)
    assert (job["state"], job["sent"], job["refused"]) == ("done", len(found.letters), len(forged))
    assert len(broker.read_written("orders")) == len(found.letters)
    shown = found.dlq_json("show", "orders-dlt-0@2")["history"][0]
    assert shown["state"] == "refused"


def test_a_system_that_is_not_known(broker: Cluster) -> None:
    """A mapping says which header has what; without it letters are listed, but are sent only with --to."""
    broker.create("plain", "orders", "aside", partitions=3)
    said = [("x-topic", b"orders"), ("x-why", b"late"), ("user", b"1")]
    broker.produce("plain", [Sent(b"1", b"k1", said, 0), Sent(b"2", None, [*said, ("x-part", b"1")], 1)])
    plain = Letters(broker, "plain")
    unclear = plain.dlq_json("redrive", "--dry-run", code=exit_codes.FAILED)
    assert (unclear["ok"], unclear["refused"], unclear["unrecognised"]) == (False, 2, 2)
    assert "2 will be refused: system not recognised; use --map or --to" in plain.dlq("redrive", "--dry-run").out
    assert plain.dlq_json("show", "plain-0@0")["command"].endswith("redrive --id plain-0@0 --to TOPIC")
    mapped = Letters(broker, "plain", ("topic=x-topic", "reason=x-why", "partition=x-part"))
    assert mapped.dlq_json("list", "--reason", "late", "--origin", "orders")["letters"] == 2
    assert mapped.dlq("list", "--map", "origin=x").code == exit_codes.USAGE
    assert mapped.dlq_json("redrive", "--yes", "--create-topics")["sent"] == 2
    sent = {each.value: each for each in broker.read_written("orders")}
    assert sent[b"2"].partition == 1
    assert [name for name, _ in sent[b"1"].headers] == ["user", "redrive"]
    assert sent[b"1"].key == b"k1"
    assert plain.dlq_json("redrive", "--yes", "--again", "--to", "aside")["sent"] == 2
    assert [each.header("redrive") for each in broker.read_written("aside")] == [None, None]

    said_so = Recognition((("topic", "x-topic"), ("reason", "x-why")))
    settings = OtherSystem("plain", {"bootstrap.servers": broker.servers}, said_so)
    _, job = created(settings, JobOptions(group="plain", again=True))
    assert "leave --map and --system out" in mapped.dlq("resume", job.id).err
    assert plain.dlq_json("resume", job.id)["sent"] == 2, "it keeps the mapping of its author"
    again = [each for each in broker.read_written("orders") if str(each.header("redrive")).startswith(job.id)]
    assert {each.value: [name for name, _ in each.headers] for each in again} == {
        b"1": ["user", "redrive"],
        b"2": ["user", "x-part", "redrive"],
    }
    (*_, last) = plain.dlq_json("jobs")["jobs"]
    assert last["options"]["map"] == {"topic": "x-topic", "reason": "x-why"}
