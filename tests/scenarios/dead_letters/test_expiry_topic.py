"""Records that expired are dead letters of their expiry topic; what was moved there is not sent again."""

import json
from threading import Event

import pytest

from kafka_redelivery.dead_letters.draining import Drain
from kafka_redelivery.topology.policy.decision import Reason
from kafka_redelivery.transport.activemq.broker_message import BrokerMessage, Server
from tests.scenarios.commands import redelivery
from tests.scenarios.letters import expiring
from tests.scenarios.redriving import died, dlq, dlq_json, settings_of
from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka

_POLICY = expiring(3_600_000, expiryAddress="EXP.{topic}")


def test_what_has_expired_is_listed_sent_again_and_removed(group: Group) -> None:
    """An expired record waits in its expiry topic. A dead letter that was moved there counts as expired."""
    group.prepare(policyEntry=_POLICY)
    group.send([["ok"], ["ok"]], headers=[("JMSExpiration", b"1000")])
    group.worker()
    expiry = f"EXP.{group.source}"
    until(lambda: len(group.cluster.read(expiry)) == 2, "they are in the expiry topic")
    older = died(group, 8, reason=Reason.EXPIRED, expires_ms=1000)  # when there was no expiry topic
    group.cluster.produce(group.dead_letters, [died(group, 7, expires_ms=1000), older])
    assert redelivery("sweep", "--yes", file=group.file).code == 0
    (moved,) = [each for each in group.cluster.read(expiry) if b'"n": 7' in (each.value or b"")]

    listed = dlq_json(group, "list")
    assert (listed["letters"], listed["expired"], [each["reason"] for each in listed["kinds"]]) == (2, 2, ["expired"])
    assert dlq_json(group, "summary")["letters"] == 2
    assert dlq_json(group, "show", f"{expiry}-{moved.partition}@{moved.offset}")["reason"] == "redeliveries_exceeded"
    exported = [json.loads(line)["id"] for line in dlq(group, "export").out.splitlines()]
    assert [each.rpartition("-")[0] for each in exported] == [expiry] * 4

    assert dlq_json(group, "redrive", "--yes")["sent"] == 2
    until(lambda: group.outputs() == exactly([0, 1]), "they are handled")
    until(lambda: dlq_json(group, "list", "--state", "recovered")["letters"] == 2, "their outcomes are known")
    group.stop()
    assert dlq_json(group, "purge", "--yes")["removed"] == 2
    assert moved.value in {each.value for each in group.cluster.read(expiry)}
    assert len(group.cluster.read(expiry)) == 2


class _Queue:
    """A queue with one message, which comes again until an acknowledgement arrives."""

    def __init__(self) -> None:
        self.loses, self._left = True, True
        self._shown = False

    def receive(self, within_s: float) -> BrokerMessage | None:  # noqa: ARG002 - of the protocol
        if self._shown or not self._left:
            return None
        self._shown = True
        said = {"message-id": "ID:1", "original-destination": "/queue/orders", "_AMQ_ACTUAL_EXPIRY": "1795435435789"}
        return BrokerMessage(said, b"order 7", "ExpiryQueue", Server.CLASSIC)

    def acknowledge(self, messages: list[BrokerMessage]) -> None:  # noqa: ARG002 - of the protocol
        self._shown = False
        if self.loses:
            raise ConnectionError("the acknowledgement is lost")
        self._left = False

    def widen(self) -> bool:
        return False

    def stored(self) -> int | None:
        return int(self._left)

    def shadowed(self) -> int:
        return 0


def test_an_expired_message_is_imported_once(group: Group) -> None:
    """A broker that does not learn of it delivers it again; then it is in the expiry topic already."""
    group.prepare(policyEntry=_POLICY)
    settings, queue = settings_of(group), _Queue()
    with pytest.raises(ConnectionError):
        Drain(settings, group.source, "key").run(queue, Event(), None, 0.0, lambda _: None)
    queue.loses = False
    again = Drain(settings, group.source, "key").run(queue, Event(), None, 0.0, lambda _: None)
    assert (again.present, again.topics.total(), again.left) == (1, 0, 0)
    assert [each.value for each in group.cluster.read_written(f"EXP.{group.source}")] == [b"order 7"]
    assert group.cluster.read(group.dead_letters) == []
    assert dlq_json(group, "list", "--reason", "expired")["letters"] == 1
