"""A password in a file is read when a client is opened, and again while it is open; a lasting client is replaced."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_redelivery.topology import exit_codes
from kafka_redelivery.transport import tokens
from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.client_config import Config, admin_config, consumer_config, producer_config
from kafka_redelivery.transport.errors import ClientSettingsError
from kafka_redelivery.transport.opening import (
    LastingAdmin,
    open_admin,
    open_consumer,
    open_producer,
    read_password,
    renew_passwords,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a password."""
    found = tmp_path / "password"
    found.write_text("first\n")
    return found


def kafka(file: Path) -> Config:
    """Settings of a login that no test makes."""
    return {
        "bootstrap.servers": "127.0.0.1:1",
        "log_level": 0,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "billing",
        "sasl.password.file": str(file),
    }


@pytest.mark.parametrize(
    ("text", "password"), [("secret\n", "secret"), ("secret", "secret"), (" a b \r\n", " a b "), ("", "")]
)
def test_a_line_break_at_the_end_is_no_part_of_the_password(file: Path, text: str, password: str) -> None:
    """Blanks are."""
    file.write_bytes(text.encode())
    assert read_password(str(file)) == password


def test_open_clients_get_a_changed_password_once(file: Path) -> None:
    """Those of every kind that are open; one that is closed is left out."""
    settings = kafka(file)
    clients = [
        open_consumer(consumer_config(settings, group="billing", instance=None)),
        open_producer(producer_config(settings, transactional_id=None)),
        open_admin(admin_config(settings)),
    ]
    assert renew_passwords() == 0
    file.write_text("second\n")
    assert renew_passwords() == len(clients)
    assert renew_passwords() == 0
    clients.clear()
    file.write_text("third\n")
    assert renew_passwords() == 0


def test_a_file_that_is_missing_for_a_moment_changes_nothing(file: Path) -> None:
    """The client gets the new password when the file is there again."""
    client = open_admin(admin_config(kafka(file)))
    file.unlink()
    assert renew_passwords() == 0
    file.write_text("second")
    assert renew_passwords() == 1
    del client


def test_all_clients_open_with_one_token_or_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client itself takes no other kind of function, and could not be opened without a token."""
    asked = []

    def token(config: str) -> tuple[str, float]:
        asked.append(config)
        raise OSError("down")

    monkeypatch.setattr(tokens, "token_function", lambda _: token)
    settings: Config = {
        "bootstrap.servers": "127.0.0.1:1",
        "log_level": 0,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.config": "region=x",
        "oauth_cb": f"{__name__}:token",
    }
    open_consumer(consumer_config(settings, group="billing", instance=None)).close()
    open_producer(producer_config(settings, transactional_id=None)).flush(0)
    open_admin(admin_config(settings)).poll(0)
    assert asked == ["region=x"]


def test_a_start_without_the_file_names_it(tmp_path: Path) -> None:
    """With the exit code of a wrong configuration."""
    missing = tmp_path / "none"
    with pytest.raises(ClientSettingsError, match=f"names {missing}, which cannot be read") as caught:
        AdminCalls(admin_config(kafka(missing)), timeout_s=1)
    assert caught.value.exit_code == exit_codes.CONFIGURATION


@pytest.mark.parametrize("setting", [{"no.such.setting": "x"}, {"socket.timeout.ms": "soon"}])
def test_settings_that_the_client_refuses(file: Path, setting: Config) -> None:
    """Whichever client it is, also one that a running process opens later: its keystore may have another password."""
    for open_client in (open_consumer, open_producer, open_admin):
        with pytest.raises(ClientSettingsError, match="the Kafka client refuses the kafka settings"):
            open_client({**kafka(file), "group.id": "billing", **setting})


def test_a_lasting_client_is_replaced_when_it_has_no_answer(file: Path) -> None:
    """It goes on asking the node that was the controller when it connected. A refusal is an answer."""
    admin = LastingAdmin(admin_config(kafka(file)))
    first = admin.client()
    admin.answered(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
    assert admin.client() is first
    admin.answered(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
    second = admin.client()
    assert second is not first
    admin.answered()
    assert admin.client() is second


def test_a_lasting_client_stays_if_no_other_can_be_opened(file: Path) -> None:
    """A file of a password may just be written anew: that ends no process whose records are handled."""
    admin = LastingAdmin(admin_config(kafka(file)))
    first = admin.client()
    admin.answered(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
    file.unlink()
    assert admin.client() is first
    file.write_text("second\n")
    assert admin.client() is not first
