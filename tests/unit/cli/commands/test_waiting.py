"""`redelivery waiting` says what it may have missed, and the audit trail says only what was done."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner, Result

from kafka_redelivery.cli.main import app
from kafka_redelivery.consumers.operations import acting, pausing, waiting
from kafka_redelivery.consumers.operations.acting import RequestState
from kafka_redelivery.consumers.operations.waiting import Positions
from kafka_redelivery.dead_letters import audit
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.wire.waiting import WaitingDone, WaitingRequest, request_record
from kafka_redelivery.transport.admin.cluster_admin import ListedTopics
from kafka_redelivery.transport.protocols import Partition, ProducerRecord
from tests.unit.cli.console.consoles import CONFIGURATION
from tests.unit.consumers.operations.test_acting import KEY, REQUEST, Control
from tests.unit.consumers.records import NOW, Fetched, lineage, waiting_headers

TIER, LOST = Partition("billing.retry.5m", 0), Partition("billing.retry.5m", 1)


class Kafka:
    """A tier with four records, a scheduler that does what it is asked for, and an audit trail."""

    def __init__(self) -> None:
        self.notes: list[dict[str, object]] = []
        self.leaderless: set[Partition] = set()

    def read(
        self, _: object, __: str, starts: Mapping[Partition, int], ends: Mapping[Partition, int], **___: object
    ) -> Iterator[Fetched]:
        """Read records of the tier."""
        for offset in range(starts[TIER], ends[TIER]):
            headers = waiting_headers(lineage(offset), own=[("customer", b"7")])
            yield Fetched(TIER.topic, TIER.number, offset, pairs=headers)

    def act(self, _: object, requests: Sequence[WaitingRequest], *__: object) -> list[RequestState]:
        """Do it."""
        return [RequestState(each, WaitingDone(len(each.offsets), ended=True)) for each in requests]

    def positions(self, _: object, __: object, partitions: Sequence[Partition], *___: object) -> Positions:
        """Four records wait in the first partition; Kafka would say nothing of one without a leader."""
        assert not self.leaderless.intersection(partitions)
        return Positions({TIER: 0}, {TIER: 4}, {})

    def write(self, records: Sequence[ProducerRecord], _: object) -> None:
        """Write a note."""
        self.notes += [json.loads(each.value or b"") for each in records]

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    """The Kafka of the commands."""
    found = Kafka()
    topics = SimpleNamespace(led_topics=lambda _: ListedTopics({TIER.topic: 2}, frozenset(found.leaderless)))
    monkeypatch.setattr(acting, "ClusterAdmin", lambda _: topics)
    monkeypatch.setattr(acting, "PartitionOffsets", lambda _: SimpleNamespace(calls=None))
    monkeypatch.setattr(acting, "topic_marks", lambda *_: {})
    monkeypatch.setattr(Positions, "of", found.positions)
    monkeypatch.setattr(acting, "refuse_older", lambda _: None)
    monkeypatch.setattr(acting, "act", found.act)
    monkeypatch.setattr(waiting, "read_between", found.read)
    monkeypatch.setattr(pausing, "targets_of", lambda *_: [SimpleNamespace(topic=TIER.topic)])
    monkeypatch.setattr(audit, "open_dlq_writer", lambda *_: found)
    return found


def _run(tmp_path: Path, *words: str) -> Result:
    file = tmp_path / "redelivery.yaml"
    file.write_text(CONFIGURATION, encoding="utf-8")
    return CliRunner().invoke(app, ["waiting", *words, "--config", str(file)], env={"COLUMNS": "200"})


@pytest.mark.parametrize("last", ["--yes", "--dry-run"])
@pytest.mark.parametrize(
    ("chosen", "limit", "unread"),
    [
        (["--header", "customer=7"], "2", True),
        (["--header", "customer=7"], "4", False),
        (["--id", "orders-5@1"], "2", False),
        (["--tier", "5m"], "2", False),
    ],
    ids=["more may fit", "all are read", "the one with the id is found", "a whole tier"],
)
def test_what_was_not_looked_at(
    tmp_path: Path, kafka: Kafka, chosen: list[str], limit: str, last: str, *, unread: bool
) -> None:
    """Beyond the limit: what is found is done, and a script sees that it may not be all."""
    done = _run(tmp_path, "deliver-now", *chosen, "--limit", limit, last, "--json")
    found = json.loads(done.stdout)
    assert found["unread"] == ("only 2 of about 4 waiting records were read; raise --limit" if unread else "")
    assert (found["ok"], done.exit_code) == ((False, exit_codes.FAILED) if unread else (True, exit_codes.OK))
    assert len(kafka.notes) == (last == "--yes")

    shown = _run(tmp_path, "deliver-now", *chosen, "--limit", limit, last)
    assert ("raise --limit" in shown.stderr, shown.exit_code) == (unread, done.exit_code)


@pytest.mark.parametrize("chosen", [["--header", "customer=7"], ["--tier", "5m"]], ids=["some", "whole tiers"])
def test_a_partition_without_a_leader(tmp_path: Path, kafka: Kafka, chosen: list[str]) -> None:
    """What waits in others is delivered, and a script sees that it may not be all."""
    kafka.leaderless = {LOST}
    names = f"{LOST} has no leader and cannot be read: what waits there is left out; start a broker"
    done = _run(tmp_path, "deliver-now", *chosen, "--yes", "--json")
    found = json.loads(done.stdout)
    assert found["unread"].startswith(names)
    assert (found["ok"], done.exit_code) == (False, exit_codes.FAILED)
    assert [each["partition"] for each in found["requests"]] == [TIER.number]
    assert names in _run(tmp_path, "deliver-now", *chosen, "--yes").stderr


def test_only_what_is_cancelled_is_in_the_audit_trail(
    tmp_path: Path, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not an action of an unknown id, nor one that has ended, nor others that are named with it."""
    control = Control()
    control.records = [request_record(REQUEST, NOW)]
    monkeypatch.setattr(acting, "control_tail", lambda _: control)
    monkeypatch.setattr(acting, "append_control", control.append)

    assert _run(tmp_path, "cancel", KEY.id, "a2").exit_code == exit_codes.USAGE
    assert not kafka.notes
    assert list(control.read_to_end().requests) == [KEY]

    assert _run(tmp_path, "cancel", KEY.id).exit_code == exit_codes.OK
    assert [(each["what"], each["about"]) for each in kafka.notes] == [("cancel waiting", KEY.id)]
    assert not control.read_to_end().requests
