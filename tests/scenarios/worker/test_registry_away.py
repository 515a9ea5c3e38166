"""A schema registry that does not answer decides about no record: its partitions wait, and others go on."""

import pytest

from kafka_redelivery.serdes.avro import AvroCodec
from tests.scenarios.cluster import Sent
from tests.scenarios.running import Group, exactly, script
from tests.scenarios.scraping import free_port, readiness, value_of
from tests.scenarios.waiting import until
from tests.unit.serdes.conftest import Registry, registry  # noqa: F401 - a fixture

pytestmark = pytest.mark.kafka

_AWAY = (503, b"{}")
_SCRIPT = {
    "type": "record",
    "name": "Script",
    "fields": [{"name": "n", "type": "int"}, {"name": "do", "type": {"type": "array", "items": "string"}}],
}


def _serde(registry: Registry) -> dict[str, object]:  # noqa: F811
    return {"format": "avro", "registry": {"url": registry.url, "max.retries": "0"}}


def _encoded_output(group: Group, registry: Registry) -> tuple[str, dict[str, object]]:  # noqa: F811
    """Create an output topic whose values need a registry, which is away; the topic and its serde."""
    registry.add(7, "int")
    registry.instead = _AWAY
    encoded = f"{group.name}.encoded"
    group.cluster.create(encoded, partitions=1)
    (group.folder / "number.avsc").write_text('"int"', encoding="utf-8")
    return encoded, _serde(registry) | {"subject": "flights-value", "reader": "number.avsc"}


@pytest.mark.parametrize(
    "mode", ["transacted", *(pytest.param(each, marks=pytest.mark.long) for each in ("auto", "client"))]
)
def test_records_wait_uncounted(group: Group, registry: Registry, mode: str) -> None:  # noqa: F811
    """The policy allows no redelivery, so that a counted attempt would be the last."""
    other, port = f"{group.name}.other", free_port()
    registry.add(7, _SCRIPT)
    registry.instead = _AWAY
    group.cluster.create(other, partitions=1)
    group.prepare(
        mode=mode,
        sources=[
            {"topic": group.source, "value": _serde(registry)},
            {"topic": other, "value": {"format": "json"}},
        ],
        metrics={"port": port, "host": "127.0.0.1"},
        policyEntry={"redeliveryPolicy": {"maximumRedeliveries": 0}},
    )
    codec = AvroCodec.of({7: _SCRIPT})
    do = ["ack" if mode == "client" else "ok"]
    values = [codec.encode({"n": n, "do": do}) for n in range(4)]
    group.cluster.produce(group.source, [Sent(value, b"k", partition=0) for value in values])
    worker = group.worker()
    until(lambda: "it is tried again in 2 s" in worker.log, "the first record was tried twice")
    group.cluster.produce(other, [script(n, do) for n in range(4, 8)])
    until(lambda: group.outputs() == exactly(range(4, 8)), "the other source goes on")
    assert f"{group.source}-0 waits at offset 0, uncounted: schema source registry" in readiness(port)
    halted = {"refused_by": group.source, "cause": "unavailable"}
    assert value_of(port, "redelivery_halted_partitions", **halted) == 1

    registry.instead = None
    until(lambda: group.outputs() == exactly(range(8)), "all are handled")
    until(lambda: "waits at" not in readiness(port), "nothing waits")
    group.stop()
    assert group.deliveries.attempts() == {n: [1] for n in range(8)}
    assert not group.dead()


def test_outputs_wait_uncounted(group: Group, registry: Registry) -> None:  # noqa: F811
    """A handler is called again until its output can be encoded. The attempt is the same, and one output is written."""
    encoded, serde = _encoded_output(group, registry)
    group.prepare(
        outputs=[{"topic": encoded, "value": serde}],
        policyEntry={"redeliveryPolicy": {"maximumRedeliveries": 0}},
    )
    group.send([[f"number {encoded}"]])
    worker = group.worker()
    until(lambda: "it is tried again in 2 s" in worker.log, "the record was tried twice")
    registry.instead = None
    until(lambda: len(group.cluster.read(encoded)) == 1, "the output is written")
    group.stop()
    assert set(group.deliveries.attempts()[0]) == {1}
    assert not group.dead()


def test_others_do_not_make_a_handler_be_called_again_and_again(group: Group, registry: Registry) -> None:  # noqa: F811
    """Records of the same partition that have an outcome meanwhile leave the pauses as long as they are."""
    encoded, serde = _encoded_output(group, registry)
    group.prepare(
        partitions=1,
        handler={"ordering": "unordered", "slots": 4},
        outputs=[{"topic": encoded, "value": serde}],
        policyEntry={"redeliveryPolicy": {"maximumRedeliveries": 0}},
    )
    worker = group.worker()
    group.send([[f"number {encoded}"], *[["sleep 0.3"]] * 200])
    until(lambda: "it is tried again in 4 s" in worker.log, "the record was tried three times")
    assert group.deliveries.attempts()[0] == [1, 1, 1]
    registry.instead = None
    until(lambda: len(group.cluster.read(encoded)) == 1, "the output is written")
    until(lambda: group.outputs() == exactly(range(1, 201)), "all others are handled")
    group.stop()
    assert not group.dead()
