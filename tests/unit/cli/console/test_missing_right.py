"""The page of the topology has the line that grants what is missing."""

from pathlib import Path

import pytest

from kafka_redelivery.cli.console import console as module
from kafka_redelivery.transport.admin.errors import NotAuthorisedError
from kafka_redelivery.transport.errors import TopicForbiddenError, TransportError
from tests.unit.cli.console.consoles import console_of


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            NotAuthorisedError("read", "denied", "DescribeConfigs on topic a, b", unreadable=["a", "b"]),
            "--operation DescribeConfigs --topic a --topic b --resource-pattern-type literal",
        ),
        (
            NotAuthorisedError("read", "denied", "Describe on group billing", group="billing"),
            "--operation Describe --group billing --resource-pattern-type literal",
        ),
        (TopicForbiddenError("orders", "denied"), "--operation Read --topic orders --resource-pattern-type literal"),
    ],
)
def test_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: TransportError, line: str) -> None:
    """For the user that `topology acls` would name, as none is configured."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(module, "look_at_topology", fail)
    with pytest.raises(TransportError) as caught:
        console_of(tmp_path)._look_at_topology()
    start = "kafka-acls.sh --bootstrap-server 127.0.0.1:1 --command-config admin.properties"
    assert str(caught.value) == f"{error}\n{start} --add --allow-principal User:billing-console {line}"


def test_a_refused_login_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no right."""

    def fail(*_: object) -> None:
        raise NotAuthorisedError("list the topics", "cannot log in", login=True)

    monkeypatch.setattr(module, "look_at_topology", fail)
    with pytest.raises(NotAuthorisedError, match=r"cannot log in$"):
        console_of(tmp_path)._look_at_topology()
