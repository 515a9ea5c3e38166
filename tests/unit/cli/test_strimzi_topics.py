"""Topics as resources of Strimzi, which makes each as its resource is and deletes it with its resource."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from kafka_redelivery.cli.main import app
from kafka_redelivery.cli.views.topology import strimzi_topics
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.cluster.facts import TopicFacts
from kafka_redelivery.topology.cluster.plan import KEEP_ALL, PlannedTopic, Role, TopologyPlan, plan
from kafka_redelivery.topology.config.loading import load_settings

SCHEMA = json.loads((Path(__file__).parents[3] / "deploy/schemas/kafkatopic.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)
TEXT = "group: billing\nkafka: {bootstrap.servers: 'nowhere:1'}\nsources: [{topic: orders}, {topic: Order_lines}]\n"
SOURCES = {name: TopicFacts(name=name, partitions=6, replication_factor=3) for name in ("orders", "Order_lines")}


def planned() -> TopologyPlan:
    """The plan of a group with two sources."""
    return plan(load_settings(TEXT), SOURCES)


def specifications(found: TopologyPlan, existing: Mapping[str, TopicFacts]) -> dict[str, dict[str, object]]:
    """The specification of each topic by the topic's name."""
    resources = strimzi_topics(found, existing)
    for each in resources:
        VALIDATOR.validate(each)
    assert len({each["metadata"]["name"] for each in resources}) == len(resources)
    return {each["spec"].get("topicName", each["metadata"]["name"]): each["spec"] for each in resources}


def test_each_planned_topic_is_a_resource() -> None:
    """With the partitions, replicas and configurations that `topology apply` would give it."""
    found = planned()
    assert specifications(found, {}) == {
        topic.name: {
            **({"topicName": topic.name} if re.search("[A-Z_]", topic.name) else {}),
            "partitions": topic.partitions,
            "replicas": topic.replication_factor,
            "config": dict(topic.configs),
        }
        for topic in found.topics
    }


def test_a_topic_that_exists_is_not_made_smaller_or_less_safe() -> None:
    """What is better than planned is kept, and what is not is as planned."""
    retry = TopicFacts(
        name="billing.retry.1s",
        partitions=9,
        replication_factor=2,
        configs={"retention.ms": "1000", "min.insync.replicas": "2", "cleanup.policy": "delete"},
    )
    (needed,) = [topic for topic in planned().topics if topic.name == retry.name]
    assert needed.configs["min.insync.replicas"] == "1"
    found = specifications(planned(), {retry.name: retry})[retry.name]
    assert (found["partitions"], found["replicas"]) == (9, 2)
    assert found["config"] == {**needed.configs, "min.insync.replicas": "2", "retention.ms": "-1"}


def test_a_topic_that_exists_keeps_what_was_set_at_it() -> None:
    """Strimzi deletes what a resource does not name. What a topic has from its brokers is not in it."""
    own = {"unclean.leader.election.enable": "false", "message.timestamp.before.max.ms": "9000", "retention.ms": "1000"}
    retry = TopicFacts(
        name="billing.retry.1s",
        partitions=6,
        replication_factor=3,
        configs={**own, "compression.type": "producer"},
        own=frozenset(own),
    )
    (needed,) = [topic for topic in planned().topics if topic.name == retry.name]
    found = specifications(planned(), {retry.name: retry})[retry.name]
    assert found["config"] == {**own, **needed.configs}


def test_a_tier_that_is_not_configured_any_more_stays() -> None:
    """Without its resource Strimzi would delete it, with the records that wait in it."""
    old = TopicFacts(name="billing.retry.5s", partitions=3, replication_factor=3)
    found = specifications(planned(), {old.name: old})[old.name]
    assert found == {"partitions": 3, "replicas": 3, "config": dict(KEEP_ALL)}


@given(st.lists(st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True), unique=True, min_size=1, max_size=20))
def test_any_topics_have_names_of_their_own(topics: list[str]) -> None:
    """Names that Kubernetes takes as they are stay as they are; each topic is named once."""
    found = TopologyPlan(
        group="g",
        naming=planned().naming,
        sources={},
        missing_sources=(),
        topics=tuple(
            PlannedTopic(name=name, role=Role.RETRY, partitions=1, replication_factor=1, configs={}, sources=())
            for name in topics
        ),
    )
    assert list(specifications(found, {})) == topics


def test_the_command_prints_them(tmp_path: Path) -> None:
    """As a file for kubectl; not together with JSON."""
    file = tmp_path / "redelivery.yaml"
    file.write_text(TEXT, encoding="utf-8")
    words = ["topology", "plan", "--config", str(file), "--offline", "--partitions", "orders=6", "--format", "strimzi"]
    words += ["--partitions", "Order_lines=6"]
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, done.stderr) == (exit_codes.OK, "")
    kinds = [(each["kind"], each["metadata"]["labels"]) for each in yaml.safe_load_all(done.stdout)]
    assert kinds == [("KafkaTopic", {"strimzi.io/cluster": "my-cluster"})] * len(planned().topics)
    assert CliRunner().invoke(app, [*words, "--json"]).exit_code == exit_codes.USAGE
