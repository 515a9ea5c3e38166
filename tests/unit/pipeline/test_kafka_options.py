"""Client settings said in the words of the client that Spark has."""

from pathlib import Path

import pytest

from pipeline.errors import KafkaOptionError
from pipeline.kafka_options import kafka_options


def test_every_read_is_of_committed_records() -> None:
    """Isolation is always read_committed, and names get the prefix of Spark's source."""
    found = kafka_options({"bootstrap.servers": "a:1", "log_level": 0, "linger.ms": 5})

    assert found == {
        "kafka.bootstrap.servers": "a:1",
        "kafka.isolation.level": "read_committed",
        "kafka.fetch.max.wait.ms": "20",
        "kafka.max.poll.records": "10000",
    }


def test_how_spark_reads_can_be_said() -> None:
    """It takes a whole fetch in a poll and does not wait for more, unless the configuration says otherwise."""
    found = kafka_options({"bootstrap.servers": "a:1", "spark.max.poll.records": 7, "consumer.fetch.wait.max.ms": 500})

    assert found["kafka.max.poll.records"] == "7"
    assert found["kafka.fetch.max.wait.ms"] == "500"


def test_a_login_is_written_as_the_java_client_has_it() -> None:
    """User and password become the line of a login module, with quotes escaped."""
    found = kafka_options(
        {
            "bootstrap.servers": "a:1",
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "me",
            "sasl.password": 'a"b\\c',
        }
    )

    assert found["kafka.security.protocol"] == "SASL_SSL"
    assert found["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    login = found["kafka.sasl.jaas.config"]
    assert login == (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="a\\"b\\\\c";'
    )


def test_certificates_are_read_and_handed_on(tmp_path: Path) -> None:
    """Files in PEM become the text that the Java client takes, and it is told that they are PEM."""
    authority = tmp_path / "ca.pem"
    authority.write_text("-----BEGIN CERTIFICATE-----")

    found = kafka_options({"bootstrap.servers": "a:1", "ssl.ca.location": str(authority)})

    assert found["kafka.ssl.truststore.certificates"] == "-----BEGIN CERTIFICATE-----"
    assert found["kafka.ssl.truststore.type"] == "PEM"


def test_settings_of_one_client_alone() -> None:
    """What is for producers is left out, what is for consumers taken, and what is in Java's words wins."""
    found = kafka_options(
        {
            "bootstrap.servers": "a:1",
            "producer.unheard.of": 1,
            "consumer.client.rack": "b",
            "spark.client.rack": "c",
            "spark.request.timeout.ms": 9,
        }
    )

    assert found["kafka.client.rack"] == "c"
    assert found["kafka.request.timeout.ms"] == "9"
    assert not any("unheard" in name for name in found)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.oauthbearer.method", "oidc"),
        ("sasl.mechanism", "GSSAPI"),
        ("enable.ssl.certificate.verification", False),
        ("ssl.ca.location", "/no/such/file"),
    ],
)
def test_what_has_no_translation_is_refused(name: str, value: str | bool) -> None:  # noqa: FBT001 - a setting
    """The error names the setting and what to do."""
    with pytest.raises(KafkaOptionError, match=name) as raised:
        kafka_options({"bootstrap.servers": "a:1", name: value})

    assert raised.value.mend


def test_said_in_java_s_words_nothing_is_refused() -> None:
    """A setting without translation passes if Java's own is there beside it."""
    found = kafka_options({"bootstrap.servers": "a:1", "ssl.curves.list": "x", "spark.ssl.curves.list": "y"})

    assert found["kafka.ssl.curves.list"] == "y"
