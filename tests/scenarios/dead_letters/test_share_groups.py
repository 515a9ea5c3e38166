"""Dead letters of a real share group are found, completed and sent again, and what loses them is reported."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from examples.share_group.consumer import consume
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.foreign.recorded import Letters
from tests.scenarios.cluster import Cluster, Sent
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

GROUP, SOURCE, LETTERS = "billing", "orders", "dlq.orders"
ENABLED = {"errors.deadletterqueue.group.enable": "true"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A broker of its own: the feature is switched on when it is formatted."""
    with EmbeddedKafka(features={"share.version": 2}) as kafka:
        yield Cluster(kafka.bootstrap_servers)


def configure(cluster: Cluster, **settings: str) -> None:
    """Set what dots and not underscores have in the configuration of the share group."""
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ConfigResource.Type.GROUP, GROUP, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": cluster.servers})
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result()


@contextmanager
def consuming(cluster: Cluster, broken: Event) -> Iterator[list[bytes]]:
    """Run the example, which rejects the records of k1 and k2 while ``broken``; yield the values that it handled."""
    handled: list[bytes] = []

    def handle(message: Message) -> None:
        if broken.is_set() and message.key() in {b"k1", b"k2"}:
            raise ValueError("the bank is down")
        handled.append(message.value() or b"")

    stop = Event()
    thread = Thread(target=consume, args=(cluster.servers, GROUP, SOURCE, handle, stop))
    thread.start()
    try:
        yield handled
    finally:
        stop.set()
        thread.join()


def test_from_rejected_to_handled(cluster: Cluster) -> None:
    """Letters without content are sent with that of their records; a second death is known, and then all succeed."""
    cluster.create(SOURCE, partitions=2)
    found = Letters(cluster, LETTERS)
    check = ("check", "--share-group", GROUP)
    configure(cluster, share_auto_offset_reset="earliest")
    lost = found.dlq_json(*check, code=exit_codes.FAILED)
    assert [each["losesLetters"] for each in lost["faults"]] == [True]
    configure(cluster, errors_deadletterqueue_topic_name=LETTERS)
    cluster.create(LETTERS)
    assert "errors.deadletterqueue.group.enable=true" in found.dlq(*check).out
    cluster.alter(LETTERS, **ENABLED)
    ready = found.dlq_json(*check)
    assert [each["losesLetters"] for each in ready["faults"]] == [False], "they have no content"

    headers = [("trace-id", b"a"), ("trace-id", b"b")]
    cluster.produce(SOURCE, [Sent(b"%d" % each, b"k%d" % each, headers, each % 2) for each in range(4)])
    broken = Event()
    broken.set()
    with consuming(cluster, broken) as handled:
        until(lambda: len(cluster.read(LETTERS)) == 2, "two records are rejected")
        assert {(each.key, each.value) for each in cluster.read(LETTERS)} == {(None, None)}
        listed = found.dlq_json("list", "--each", "--reason", "rejected")["each"]
        assert {(each["system"], each["group"], each["origin"]) for each in listed} == {("share-group", GROUP, SOURCE)}
        previewed = found.dlq_json("redrive", "--dry-run")
        assert (previewed["fetched"], previewed["gone"], previewed["targets"]) == (2, 0, {SOURCE: 2})
        assert found.dlq_json("redrive", "--yes", "--create-topics")["sent"] == 2
        until(lambda: len(cluster.read(LETTERS)) == 4, "both are rejected again")
        states = [each["state"] for each in found.dlq_json("list", "--each")["each"]]
        assert sorted(states) == ["dead_again", "dead_again", "waiting", "waiting"]
        broken.clear()
        assert found.dlq_json("redrive", "--yes")["sent"] == 2
        until(lambda: len(handled) == 4, "all are handled")
    assert sorted(handled) == [b"0", b"1", b"2", b"3"]
    sent = [each for each in cluster.read_written(SOURCE) if each.header("redrive")]
    assert all(list(each.headers[:-1]) == headers for each in sent)
    assert len(cluster.read(LETTERS)) == 4
