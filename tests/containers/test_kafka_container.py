"""Kafka in a container is configured by its environment alone and serves the host and its network."""

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource
from docker import DockerClient
from testcontainers.core.network import Network

from tests.containers.kafka import KafkaContainer
from tests.scenarios.cluster import Cluster, Sent
from tests.scenarios.waiting import LONG_S, until

_LIST = """
from confluent_kafka.admin import AdminClient
print(len(AdminClient({"bootstrap.servers": "localhost:9092"}).list_topics(timeout=5).brokers))
"""


def test_a_property_comes_from_the_environment(kafka_container: KafkaContainer) -> None:
    """``KAFKA_MESSAGE_MAX_BYTES`` is the broker's ``message.max.bytes``."""
    admin = AdminClient({"bootstrap.servers": kafka_container.bootstrap_servers})
    broker = ConfigResource(ConfigResource.Type.BROKER, "1")
    found = admin.describe_configs([broker])[broker].result(LONG_S)
    assert found["message.max.bytes"].value == "1234567"


def test_a_transaction_is_finished_inside_the_container(kafka_container: KafkaContainer, unique: str) -> None:
    """A read-committed reader sees its records, so the broker has written the commit marker."""
    cluster = Cluster(kafka_container.bootstrap_servers)
    cluster.create(unique)
    cluster.produce(unique, [Sent(b"outside")])
    producer = Producer({"bootstrap.servers": kafka_container.bootstrap_servers, "transactional.id": unique})
    producer.init_transactions(LONG_S)
    producer.begin_transaction()
    producer.produce(unique, b"inside")
    producer.commit_transaction(LONG_S)
    with cluster.follow(unique) as tail:
        tail.reach(2)
        assert [record.value for record in tail.records] == [b"outside", b"inside"]


def test_without_any_environment_it_is_one_node(
    client: DockerClient, kafka_image: str, worker_image: str, network: Network
) -> None:
    """Without properties it is broker and controller, at ``localhost:9092`` for containers that share its network."""
    del network
    bare = client.containers.run(kafka_image, detach=True)
    try:

        def brokers() -> bool:
            bare.reload()
            assert bare.status == "running", bare.logs().decode()
            shared = f"container:{bare.id}"
            command = ["-c", _LIST]
            run = client.containers.run(
                worker_image, command, entrypoint="python", network_mode=shared, detach=True, stderr=True
            )
            try:
                run.wait(timeout=LONG_S)
                return bool(run.logs(stderr=False).strip() == b"1")
            finally:
                run.remove(force=True)

        until(brokers, "the node answers")
    finally:
        bare.remove(force=True, v=True)
