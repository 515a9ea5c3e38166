"""Two groups never share a ready topic: the second is refused before it changes anything."""

import json
from pathlib import Path

import pytest

from kafka_redelivery.topology import exit_codes
from tests.scenarios.cluster import Cluster
from tests.scenarios.commands import redelivery, topology
from tests.scenarios.running import Group


@pytest.mark.parametrize("first", [0, 1])
def test_a_ready_topic_of_two_groups_is_refused(cluster: Cluster, unique: str, tmp_path: Path, first: int) -> None:
    """Names of group and source that give the same name, whichever group comes first."""
    sources = {unique: f"h.ready.{unique}", f"{unique}.ready.h": unique}
    groups = []
    for number, (name, source) in enumerate(sources.items()):
        (tmp_path / str(number)).mkdir()
        group = Group(cluster, name, tmp_path / str(number))
        group.configure(sources=[{"topic": source, "value": {"format": "json"}}])
        cluster.create(source, partitions=2)
        groups.append(group)
    ready = f"{unique}.ready.h.ready.{unique}"
    owner, other = groups[first], groups[1 - first]
    assert topology("apply", file=owner.file).code == exit_codes.OK

    problem = f"{ready}: is the ready topic of group {owner.name}, too"
    shown = topology("plan", file=other.file)
    assert (shown.code, problem in shown.err) == (exit_codes.TOPOLOGY_REFUSED, True)
    before = cluster.topics()
    applied = topology("apply", file=other.file)
    assert applied.code == exit_codes.TOPOLOGY_REFUSED
    assert problem in applied.err
    assert cluster.topics() == before
    assert cluster.committed(other.name, ready) == {}
    checked = json.loads(topology("check", "--json", file=other.file).out)
    assert [ready] == [fault["topic"] for fault in checked["faults"] if "too" in fault["problem"]]
    started = redelivery("worker", file=other.file)
    assert started.code == exit_codes.TOPOLOGY_REFUSED
    assert problem in started.err
    assert topology("check", file=owner.file).code == exit_codes.OK

    other.configure(topics={"ready": "{group}.due.{topic}"})
    assert topology("apply", file=other.file).code == exit_codes.OK
    assert topology("check", file=other.file).code == exit_codes.OK
    assert topology("check", file=owner.file).code == exit_codes.OK
