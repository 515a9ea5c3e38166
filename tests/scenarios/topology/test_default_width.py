"""New groups get few partitions in tiers and ready topics; those of an older group still grow with its source."""

from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.config.settings import DEFAULT_WIDTH
from kafka_redelivery.topology.wire.control import ControlRecord
from kafka_redelivery.transport.admin.control_topic import append_control
from tests.scenarios.commands import topology
from tests.scenarios.running import Group

_WIDE, _WIDER = DEFAULT_WIDTH + 4, DEFAULT_WIDTH + 8


def _partitions(group: Group) -> list[int]:
    return [group.cluster.partitions(topic) for topic in (group.tier("200ms"), group.ready, group.dead_letters)]


def test_the_group_keeps_the_width_that_it_began_with(group: Group) -> None:
    """The control topic says which groups are older: it has no width of theirs."""
    group.configure()
    group.cluster.create(group.source, group.output, partitions=_WIDE)
    assert topology("apply", file=group.file).code == exit_codes.OK
    assert _partitions(group) == [DEFAULT_WIDTH, DEFAULT_WIDTH, _WIDE]
    group.cluster.grow(group.source, _WIDER)
    assert topology("apply", file=group.file).code == exit_codes.OK
    assert _partitions(group) == [DEFAULT_WIDTH, DEFAULT_WIDTH, _WIDER]

    kafka = {"bootstrap.servers": group.cluster.servers}
    append_control(kafka, f"{group.name}.control", [ControlRecord(b"width", None)])
    assert topology("apply", file=group.file).code == exit_codes.OK
    assert _partitions(group) == [_WIDER] * 3
    group.cluster.delete(group.tier("200ms"))
    assert topology("apply", file=group.file).code == exit_codes.OK
    assert _partitions(group) == [_WIDER] * 3
