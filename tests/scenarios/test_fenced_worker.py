"""A worker whose identity another process has taken stops, halted, and writes nothing more."""

from cli import exit_codes
from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until
from transport.client_config import consumer_config, producer_config
from transport.reader import Reader
from transport.writer import TransactedWriter


def test_two_of_one_name(group: Group) -> None:
    """The older one is fenced at its next write; what it had handled is still to be done."""
    group.prepare()
    worker = group.worker("same")
    group.send([["ok"]] * 10)
    until(lambda: sum(group.outputs().values()) == 10, "it runs")
    kafka = {"bootstrap.servers": group.cluster.servers}
    identity = f"{group.name}.worker.same"
    reader = Reader(consumer_config(kafka, group=f"{group.name}.other", instance=None))
    newer = TransactedWriter(producer_config(kafka, transactional_id=identity), reader)

    group.send([["ok"]] * 10, first=10)

    assert worker.wait(40) == exit_codes.HALTED
    assert f"another process took over transactional.id {identity}" in worker.log
    assert group.outputs() == exactly(range(10))
    newer.close()
    reader.close()
