"""A broker whose certificate cannot be verified is not reported as an absent one."""

from pathlib import Path

import pytest

from kafka_redelivery.topology import exit_codes
from tests.scenarios.commands import topology
from tests.scenarios.secured import certificate
from tests.scenarios.users import Users


@pytest.mark.kafka
@pytest.mark.parametrize("wrong", ["authority", "host name"])
def test_a_certificate_that_cannot_be_verified(users: Users, tmp_path: Path, wrong: str) -> None:
    """The message names TLS and the settings to check."""
    users.configure()
    if wrong == "authority":
        setting = f"ssl.ca.location={certificate(tmp_path)[0]}"
    else:
        setting = f"bootstrap.servers={users.secured.kafka['bootstrap.servers'].replace('127.0.0.1', 'localhost')}"
    user = f"kafka.sasl.username={users.name('apply')}"
    done = topology("check", f"--set={user}", f"--set=kafka.{setting}", file=users.group.file)
    assert done.code == exit_codes.BROKER_UNAVAILABLE
    assert "no TLS connection to" in done.err
    assert "ssl.ca.location" in done.err
    assert "no Kafka broker answers" not in done.err
