"""The client settings: the user's pass through by their own names, and what the promises rest on is ours."""

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from transport.client_config import (
    Config,
    admin_config,
    consumer_config,
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
    """The consumer of ``billing`` with these settings; dots are written as ``__``."""
    return consumer_config(BROKER | dotted(**settings), group="billing", instance=None)


def producer(**settings: str | float | bool) -> Config:
    """The transactional producer with these settings."""
    return producer_config(BROKER | dotted(**settings), transactional_id="billing.worker.0")


def dotted(**settings: str | float | bool) -> Config:
    """Names as Kafka writes them."""
    return {name.replace("__", "."): value for name, value in settings.items()}


class TestPassThrough:
    def test_every_client_gets_what_has_no_prefix(self) -> None:
        """TLS and SASL included, values and types as they are."""
        kafka = BROKER | TLS | {"socket.timeout.ms": 7000, "enable.ssl.certificate.verification": False}
        clients = (
            consumer_config(kafka, group="billing", instance=None),
            producer_config(kafka, transactional_id=None),
            admin_config(kafka),
        )
        for client in clients:
            assert kafka.items() <= client.items()

    def test_an_admin_client_gets_nothing_else(self) -> None:
        """There is nothing to protect."""
        assert admin_config(BROKER | TLS) == BROKER | TLS

    @pytest.mark.parametrize("name", ["socket.timeout.ms", "client.id"])
    def test_a_prefix_gives_a_setting_to_one_client(self, name: str) -> None:
        """Above the one without a prefix; the others see nothing of it."""
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

    def test_the_order_in_the_file_is_nothing(self) -> None:
        """A prefix is stronger, wherever it stands."""
        assert (
            producer_config({"producer.linger.ms": 9, "linger.ms": 1, **BROKER}, transactional_id=None)["linger.ms"]
            == 9
        )

    def test_what_is_given_is_not_changed(self) -> None:
        """One mapping makes all clients."""
        kafka = BROKER | TLS
        before = dict(kafka)
        consumer_config(kafka, group="billing", instance="0")["group.id"] = "other"
        producer_config(kafka, transactional_id="x")
        admin_config(kafka)["bootstrap.servers"] = "other"
        assert kafka == before

    def test_defaults_are_the_users_to_change(self) -> None:
        """They are only where we start from."""
        assert producer()["linger.ms"] != 50
        assert producer(linger__ms=50)["linger.ms"] == 50
        assert producer(compression__type="zstd")["compression.type"] == "zstd"
        assert consumer(fetch__wait__max__ms=0)["fetch.wait.max.ms"] == 0


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
    def test_of_the_consumer(self, prefix: str, name: str, value: str | bool, ours: str | bool) -> None:  # noqa: FBT001 - a column
        """Whatever is given, with a prefix or without."""
        config = consumer_config({**BROKER, prefix + name: value}, group="billing", instance=None)
        assert config[name] == ours

    @pytest.mark.parametrize("prefix", ["", "producer."])
    @pytest.mark.parametrize(
        ("name", "value", "ours"),
        [("enable.idempotence", False, True), ("transactional.id", "another", "billing.worker.0")],
    )
    def test_of_the_producer(self, prefix: str, name: str, value: str | bool, ours: str | bool) -> None:  # noqa: FBT001 - a column
        """The same."""
        assert producer_config({**BROKER, prefix + name: value}, transactional_id="billing.worker.0")[name] == ours

    def test_a_partitioner_that_other_languages_have_too(self) -> None:
        """So that a key goes where every other producer of the house sends it."""
        assert producer()["partitioner"] == "murmur2_random"

    def test_every_copy_is_confirmed_by_all_replicas(self) -> None:
        """Before anything is committed."""
        assert producer()["acks"] == "all"


class TestIdentity:
    def test_a_stable_name_makes_membership_static(self) -> None:
        """Without one there is none to give."""
        assert consumer_config(BROKER, group="billing", instance="billing.0")["group.instance.id"] == "billing.0"
        assert "group.instance.id" not in consumer()

    def test_only_a_transactional_producer_has_a_transaction_timeout(self) -> None:
        """Below the client's default, since an open transaction holds a tier up; it is the user's to change."""
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
    def test_the_clients_words_are_understood(self, name: str, value: str, start: str) -> None:
        """Old ones too."""
        assert source_start({name: value}) == start

    def test_the_default_loses_nothing(self) -> None:
        """A new group reads what is there."""
        assert source_start(BROKER) == "earliest"

    def test_the_consumers_own_is_stronger(self) -> None:
        """As with every setting."""
        assert source_start({"consumer.auto.offset.reset": "latest", "auto.offset.reset": "earliest"}) == "latest"


class TestCooperative:
    def test_by_default_the_assignment_changes_step_by_step(self) -> None:
        """Nobody stops for a partition that stays."""
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
    def test_it_is_told_from_the_settings(self, settings: dict[str, str], cooperative: bool) -> None:  # noqa: FBT001 - a column
        """An incremental assignment to an eager consumer is an error of the client, and the other way round."""
        assert is_cooperative(consumer(**settings)) == cooperative

    def test_the_new_protocol_gets_no_strategy(self) -> None:
        """The broker assigns there; the client refuses to be told how."""
        given = consumer(group__protocol="consumer", partition__assignment__strategy="range")
        assert "partition.assignment.strategy" not in given


def test_the_client_takes_every_setting_of_ours() -> None:
    """It refuses unknown names and values when it is made; no broker is asked."""
    nowhere: Config = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    for protocol in ("classic", "consumer"):
        config = consumer_config({**nowhere, "group.protocol": protocol}, group="billing", instance="billing.0")
        Consumer(config).close()
    Producer(producer_config(nowhere, transactional_id="billing.worker.0"))
    Producer(producer_config(nowhere, transactional_id=None))
    AdminClient(admin_config(nowhere))
