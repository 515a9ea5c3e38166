"""Client settings: the user's override our defaults, except those that the guarantees need."""

import logging

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from kafka_redelivery.transport.client_config import (
    Config,
    admin_config,
    consumer_config,
    identity_config,
    is_cooperative,
    producer_config,
    source_start,
)

BROKER: Config = {"bootstrap.servers": "kafka:9092"}
TLS: Config = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "billing",
    "sasl.password": "secret",
    "ssl.ca.location": "/etc/ca.pem",
}


def consumer(**settings: str | float | bool) -> Config:
    """Return the settings of a consumer of ``billing``; ``__`` in a name stands for a dot."""
    return consumer_config(BROKER | dotted(**settings), group="billing", instance=None)


def producer(**settings: str | float | bool) -> Config:
    """Return the settings of a transactional producer."""
    return producer_config(BROKER | dotted(**settings), transactional_id="billing.worker.0")


def dotted(**settings: str | float | bool) -> Config:
    """Replace ``__`` in names by dots."""
    return {name.replace("__", "."): value for name, value in settings.items()}


class TestPassThrough:
    def test_setting_without_prefix_applies_to_every_client(self) -> None:
        """Including TLS and SASL; values and types are unchanged."""
        kafka = BROKER | TLS | {"socket.timeout.ms": 7000, "enable.ssl.certificate.verification": False}
        clients = (
            consumer_config(kafka, group="billing", instance=None),
            producer_config(kafka, transactional_id=None),
            admin_config(kafka),
        )
        for client in clients:
            assert kafka.items() <= client.items()

    def test_admin_client_has_no_defaults(self) -> None:
        """It gets the settings of the user only."""
        assert admin_config(BROKER | TLS) == BROKER | TLS

    @pytest.mark.parametrize("name", ["socket.timeout.ms", "client.id"])
    def test_setting_with_prefix_applies_to_one_client(self, name: str) -> None:
        """It overrides the setting without a prefix; the other clients do not get it."""
        kafka: Config = {
            **BROKER,
            name: "all",
            f"producer.{name}": "producer's",
            f"admin.{name}": "admin's",
        }
        configs = {
            "consumer": consumer_config(kafka, group="billing", instance=None),
            "producer": producer_config(kafka, transactional_id=None),
            "admin": admin_config(kafka),
        }
        assert {client: config[name] for client, config in configs.items()} == {
            "consumer": "all",
            "producer": "producer's",
            "admin": "admin's",
        }
        assert not [other for config in configs.values() for other in config if other.startswith(tuple(configs))]

    def test_no_client_gets_a_setting_of_another_kind(self, caplog: pytest.LogCaptureFixture) -> None:
        """Each would log a warning about it; a prefix still gives a client what the user wants it to have."""
        others: Config = {"group.protocol": "consumer", "fetch.min.bytes": 2, "acks": "all", "linger.ms": 3}
        kafka = BROKER | others | {"admin.request.timeout.ms": 900}
        reading, writing = (
            consumer_config(kafka, group="billing", instance=None),
            producer_config(kafka, transactional_id="x"),
        )
        asking = admin_config(kafka)
        logger = logging.getLogger("client")
        with caplog.at_level(logging.INFO, "client"):
            for client in (Consumer(reading, logger=logger), Producer(writing, logger=logger)):
                client.poll(0.1)
            for config in (asking, identity_config(reading), identity_config(writing)):
                AdminClient(config, logger=logger).poll(0.1)
        assert "CONFWARN" not in caplog.text
        assert asking == BROKER | {"request.timeout.ms": 900}
        assert others.items() <= (reading | writing).items()

    def test_order_of_settings_does_not_matter(self) -> None:
        """A setting with a prefix wins, wherever it stands."""
        assert (
            producer_config({"producer.linger.ms": 9, "linger.ms": 1, **BROKER}, transactional_id=None)["linger.ms"]
            == 9
        )

    def test_argument_is_not_modified(self) -> None:
        """One mapping configures all clients."""
        kafka = BROKER | TLS
        before = dict(kafka)
        consumer_config(kafka, group="billing", instance="0")["group.id"] = "other"
        producer_config(kafka, transactional_id="x")
        admin_config(kafka)["bootstrap.servers"] = "other"
        assert kafka == before

    def test_user_can_override_defaults(self) -> None:
        """Every default can be changed."""
        assert producer()["linger.ms"] != 50
        assert producer(linger__ms=50)["linger.ms"] == 50
        assert producer(compression__type="zstd")["compression.type"] == "zstd"
        assert producer(message__max__bytes=2_000_000)["message.max.bytes"] == 2_000_000
        assert consumer(fetch__wait__max__ms=0)["fetch.wait.max.ms"] == 0

    def test_broker_decides_how_large_a_record_may_be(self) -> None:
        """The client's own limit is far above that of topics. Batches and queue keep the client's limits."""
        config = producer()
        assert int(config["message.max.bytes"]) > 10_000_000
        assert not config.keys() & {"batch.size", "batch.num.messages"}


class TestOurs:
    @pytest.mark.parametrize(
        ("name", "value", "ours"),
        [
            ("enable.auto.commit", True, False),
            ("enable.auto.offset.store", True, False),
            ("isolation.level", "read_uncommitted", "read_committed"),
            ("enable.partition.eof", False, True),
            ("auto.offset.reset", "latest", "error"),
            ("group.id", "another", "billing"),
        ],
    )
    @pytest.mark.parametrize("prefix", ["", "consumer."])
    def test_fixed_consumer(self, prefix: str, name: str, value: str | bool, ours: str | bool) -> None:  # noqa: FBT001 - a column
        """With a prefix or without."""
        config = consumer_config({**BROKER, prefix + name: value}, group="billing", instance=None)
        assert config[name] == ours

    @pytest.mark.parametrize("prefix", ["", "producer."])
    @pytest.mark.parametrize(
        ("name", "value", "ours"),
        [("enable.idempotence", False, True), ("transactional.id", "another", "billing.worker.0")],
    )
    def test_fixed_producer(self, prefix: str, name: str, value: str | bool, ours: str | bool) -> None:  # noqa: FBT001 - a column
        """With a prefix or without."""
        assert producer_config({**BROKER, prefix + name: value}, transactional_id="billing.worker.0")[name] == ours

    def test_partitioner_is_that_of_java_clients(self) -> None:
        """A key goes to the same partition whichever client produces it."""
        assert producer()["partitioner"] == "murmur2_random"

    def test_acks_are_those_of_all_replicas(self) -> None:
        """All in-sync replicas have a record before its offset is committed."""
        assert producer()["acks"] == "all"


class TestIdentity:
    def test_stable_name_makes_membership_static(self) -> None:
        """Without one there is no ``group.instance.id``."""
        assert consumer_config(BROKER, group="billing", instance="billing.0")["group.instance.id"] == "billing.0"
        assert "group.instance.id" not in consumer()

    def test_only_a_transactional_producer_has_a_transaction_timeout(self) -> None:
        """Shorter than the client's default, because an open transaction blocks readers; the user can change it."""
        assert 0 < int(producer()["transaction.timeout.ms"]) < 60_000
        assert producer(transaction__timeout__ms=60_000)["transaction.timeout.ms"] == 60_000
        plain = producer_config(BROKER, transactional_id=None)
        assert "transaction.timeout.ms" not in plain
        assert "transactional.id" not in plain


class TestSourceStart:
    @pytest.mark.parametrize("name", ["auto.offset.reset", "consumer.auto.offset.reset"])
    @pytest.mark.parametrize(
        ("value", "start"),
        [
            ("earliest", "earliest"),
            ("smallest", "earliest"),
            ("beginning", "earliest"),
            ("latest", "latest"),
            ("largest", "latest"),
            ("end", "latest"),
        ],
    )
    def test_all_values_of_the_client_are_accepted(self, name: str, value: str, start: str) -> None:
        """Including deprecated ones."""
        assert source_start({name: value}) == start

    def test_default_start_is_earliest(self) -> None:
        """A new group reads the existing records."""
        assert source_start(BROKER) == "earliest"

    def test_consumer_prefix_wins(self) -> None:
        """As for every setting."""
        assert source_start({"consumer.auto.offset.reset": "latest", "auto.offset.reset": "earliest"}) == "latest"


class TestCooperative:
    def test_default_assignment_is_cooperative(self) -> None:
        """Consumers keep reading the partitions that stay with them."""
        assert is_cooperative(consumer())

    @pytest.mark.parametrize(
        ("settings", "cooperative"),
        [
            ({"partition__assignment__strategy": "range"}, False),
            ({"partition__assignment__strategy": "roundrobin,range"}, False),
            ({"partition__assignment__strategy": "cooperative-sticky"}, True),
            ({"group__protocol": "consumer"}, True),
            ({"group__protocol": "classic"}, True),
            ({"group__protocol": "consumer", "partition__assignment__strategy": "range"}, True),
        ],
    )
    def test_is_cooperative_follows_the_settings(self, settings: dict[str, str], cooperative: bool) -> None:  # noqa: FBT001 - a column
        """The client refuses an incremental assignment of an eager consumer, and vice versa."""
        assert is_cooperative(consumer(**settings)) == cooperative

    def test_consumer_protocol_has_no_assignment_strategy(self) -> None:
        """The broker assigns partitions, and the client refuses the setting."""
        given = consumer(group__protocol="consumer", partition__assignment__strategy="range")
        assert "partition.assignment.strategy" not in given


class TestPollInterval:
    """How long a group that is rebalanced waits for a member that does not come back."""

    @pytest.mark.parametrize(
        ("settings", "interval_ms"),
        [
            pytest.param({}, 60_000, id="a minute"),
            pytest.param({"session.timeout.ms": 90_000}, 90_000, id="not below the session time-out"),
            pytest.param({"consumer.session.timeout.ms": "90000"}, 90_000, id="that of consumers"),
            pytest.param({"session.timeout.ms": 6_000}, 60_000, id="longer than an outage of 30 s"),
            pytest.param({"max.poll.interval.ms": 300_000}, 300_000, id="as configured"),
            pytest.param({"group.protocol": "consumer"}, 60_000, id="the new protocol"),
        ],
    )
    def test_of_a_scheduler(self, settings: Config, interval_ms: int) -> None:
        """A scheduler polls all the time. A longer outage than that removes it; it joins again."""
        config = consumer_config(settings, group="billing.scheduler", instance=None, scheduler=True)
        assert int(config["max.poll.interval.ms"]) == interval_ms

    def test_of_a_worker(self) -> None:
        """A worker keeps the client's default."""
        assert "max.poll.interval.ms" not in consumer_config({}, group="billing", instance=None)


def test_client_accepts_our_settings() -> None:
    """A new client refuses unknown names and values, without a broker."""
    nowhere: Config = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    for protocol in ("classic", "consumer"):
        config = consumer_config({**nowhere, "group.protocol": protocol}, group="billing", instance="billing.0")
        Consumer(config).close()
    patient = {**nowhere, "session.timeout.ms": 90_000}
    Consumer(consumer_config(patient, group="billing.scheduler", instance=None, scheduler=True)).close()
    Producer(producer_config(nowhere, transactional_id="billing.worker.0"))
    Producer(producer_config(nowhere, transactional_id=None))
    AdminClient(admin_config(nowhere))
