"""The models of the assignors against what real clients did."""

import json

import pytest

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.simulation.assignors import (
    Assignment,
    Assignor,
    cooperative_sticky,
    from_short,
    in_short,
    range_assignor,
)
from tests.simulation.recording import FILE, Case, run

_ASSIGNORS: dict[str, Assignor] = {"range": range_assignor, "cooperative-sticky": cooperative_sticky}
_RECORDED = json.loads(FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", _RECORDED)
def test_the_model_assigns_as_recorded_clients_did(name: str) -> None:
    """Each step starts from what was recorded of the step before."""
    recorded = _RECORDED[name]
    owned: Assignment = {}
    for step in recorded["steps"]:
        found = _ASSIGNORS[recorded["strategy"]](list(step), recorded["topics"], owned)
        assert {member: in_short(each) for member, each in found.items()} == step
        owned = {member: from_short(each) for member, each in step.items()}


@pytest.mark.slow
@pytest.mark.long
def test_clients_still_assign_as_recorded(kafka: EmbeddedKafka, unique: str) -> None:
    """A real group on a real broker; fails when a new version of the client assigns in another way."""
    topics = {"orders": 12, "ready": 5}
    for strategy, assign in _ASSIGNORS.items():
        steps = (["w0"], ["w0", "w1"], ["w0", "w1", "w2"], ["w1", "w2"])
        owned: Assignment = {}
        for found in run(kafka.bootstrap_servers, unique + strategy, Case(strategy, topics, steps)):
            owned = assign(list(found), topics, owned)
            assert {member: sorted(each) for member, each in found.items()} == owned
