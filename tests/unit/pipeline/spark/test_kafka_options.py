"""Client settings are translated for the Java client of Spark."""

from pathlib import Path

import pytest

from kafka_redelivery.pipeline.errors import PipelineRefusedError
from kafka_redelivery.pipeline.spark.kafka_options import kafka_options, refuse_delegation_tokens


def test_only_committed_records_are_read() -> None:
    """Isolation is always read_committed, and names get the prefix of Spark's source."""
    found = kafka_options({"bootstrap.servers": "a:1", "log_level": 0, "linger.ms": 5})

    assert found == {
        "kafka.bootstrap.servers": "a:1",
        "kafka.isolation.level": "read_committed",
        "kafka.fetch.max.wait.ms": "20",
        "kafka.max.poll.records": "10000",
    }


def test_reading_can_be_configured() -> None:
    """By default a poll takes a whole fetch and does not wait for more records."""
    found = kafka_options({"bootstrap.servers": "a:1", "spark.max.poll.records": 7, "consumer.fetch.wait.max.ms": 500})

    assert found["kafka.max.poll.records"] == "7"
    assert found["kafka.fetch.max.wait.ms"] == "500"


def test_a_login_becomes_a_jaas_configuration() -> None:
    """User and password become arguments of a login module, with quotes escaped."""
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


def test_a_password_is_read_from_its_file(tmp_path: Path) -> None:
    """Without the line break at its end."""
    file = tmp_path / "password"
    file.write_text("secret\n")
    found = kafka_options({"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password.file": str(file)})
    assert found["kafka.sasl.jaas.config"].endswith('PlainLoginModule required username="me" password="secret";')


def test_certificates_are_read_from_their_files(tmp_path: Path) -> None:
    """The content of PEM files becomes the setting of the Java client, with the type PEM."""
    authority = tmp_path / "ca.pem"
    authority.write_text("-----BEGIN CERTIFICATE-----")

    found = kafka_options({"bootstrap.servers": "a:1", "ssl.ca.location": str(authority)})

    assert found["kafka.ssl.truststore.certificates"] == "-----BEGIN CERTIFICATE-----"
    assert found["kafka.ssl.truststore.type"] == "PEM"


def test_settings_of_a_single_client() -> None:
    """Producer settings are left out, consumer settings are used, and Java settings override translations."""
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
def test_a_setting_without_translation_is_refused(name: str, value: str | bool) -> None:  # noqa: FBT001 - a setting
    """The error names the setting and a fix."""
    with pytest.raises(PipelineRefusedError, match=f"{name}: .*; "):
        kafka_options({"bootstrap.servers": "a:1", name: value})


def test_a_java_setting_replaces_a_missing_translation() -> None:
    """A setting without translation is accepted if the Java client's setting is present."""
    found = kafka_options({"bootstrap.servers": "a:1", "ssl.curves.list": "x", "spark.ssl.curves.list": "y"})

    assert found["kafka.ssl.curves.list"] == "y"


def test_a_function_for_tokens_needs_a_handler_in_java() -> None:
    """The error names the settings of the Java client, and where such handlers are had; with them the job runs."""
    login = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.config": "region=x",
        "oauth_cb": "kafka_redelivery.logins:aws_msk_iam",
    }
    with pytest.raises(PipelineRefusedError, match=r"oauth_cb: .*spark\.sasl\.login\.callback.*aws-msk-iam-auth"):
        kafka_options(login)
    handler = {"spark.sasl.jaas.config": "j", "spark.sasl.login.callback.handler.class": "h"}
    assert kafka_options(login | handler).items() >= {
        ("kafka.sasl.mechanism", "OAUTHBEARER"),
        ("kafka.sasl.jaas.config", "j"),
        ("kafka.sasl.login.callback.handler.class", "h"),
    }
    assert not any("oauth" in name for name in kafka_options(login | handler))


_TOKENS = {"spark.kafka.clusters.main.auth.bootstrap.servers": "a:1"}


def test_delegation_tokens_are_refused_without_a_login_for_the_tasks() -> None:
    """The error says why and what to add. A login is enough, and without tokens none is needed."""
    servers = {"bootstrap.servers": "a:1"}
    with pytest.raises(PipelineRefusedError, match=r"librdkafka, which cannot log in with them; add the login.*remove"):
        refuse_delegation_tokens(servers | {"security.protocol": "SASL_SSL"}, _TOKENS)

    refuse_delegation_tokens(servers | {"sasl.mechanism": "SCRAM-SHA-512"}, _TOKENS)
    refuse_delegation_tokens(servers | {"consumer.sasl.mechanisms": "PLAIN"}, _TOKENS)
    refuse_delegation_tokens(servers | {"ssl.certificate.location": "me.pem"}, _TOKENS)
    refuse_delegation_tokens(servers, {"spark.master": "yarn"})
