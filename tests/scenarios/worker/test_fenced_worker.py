"""A worker whose transactional id another process has taken over goes on with another one and does not take it back."""

from kafka_redelivery.transport.client_config import consumer_config, producer_config
from kafka_redelivery.transport.clients.reader import GroupReader
from kafka_redelivery.transport.clients.writer import TransactionalWriter
from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until


def test_two_of_one_name(group: Group) -> None:
    """The older worker is fenced at its next write, names the setting to correct, and writes everything once."""
    group.prepare()
    worker = group.worker("same")
    group.send([["ok"]] * 10)
    until(lambda: sum(group.outputs().values()) == 10, "all records are handled")
    kafka = {"bootstrap.servers": group.cluster.servers}
    identity = f"{group.name}.worker.same"
    reader = GroupReader(consumer_config(kafka, group=f"{group.name}.other", instance=None))
    newer = TransactionalWriter(producer_config(kafka, transactional_id=identity), reader)

    group.send([["ok"]] * 10, first=10)

    until(lambda: sum(group.outputs().values()) == 20, "the other records are handled")
    assert f"another process took over transactional.id {identity}" in worker.log
    assert "give each process its own 'instance' (this one has instance: same)" in worker.log
    newer.write((), {})  # raises if it is fenced
    group.stop()
    assert group.outputs() == exactly(range(20))
    newer.close()
    reader.close()
