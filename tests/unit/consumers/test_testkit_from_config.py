"""HandlerKit.from_config uses what a worker would use."""

from pathlib import Path

import pytest

from kafka_redelivery import Context, DeadLetter, HandlerKit, Record, RedeliveryPolicy, Retry, Wait
from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.topology.faults import ConfigurationError
from kafka_redelivery.topology.policy.decision import FailureKind

TEXT = """
group: billing
kafka: {bootstrap.servers: "${BROKERS}"}
sources:
  - {topic: orders, value: {format: json}}
  - topic: bills
    policy: {redeliveryPolicy: {maximumRedeliveries: 1, useCollisionAvoidance: true}}
outputs: [{topic: receipts, value: {format: json}}]
handler: {callable: "kit_handlers:Shop", notRetryable: ["builtins:KeyError"]}
policyEntry: {redeliveryPolicy: {maximumRedeliveries: 3, initialRedeliveryDelay: 0}}
"""
ENVIRONMENT = {"BROKERS": "localhost:9092"}
HANDLERS = """
import asyncio


class Shop:
    closed = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        type(self).closed += 1

    def __call__(self, record, context):
        context.send("receipts", {"topic": record.topic})
        if record.topic == "bills":
            raise ValueError


def bill(record):
    raise KeyError


async def slow(record):
    await asyncio.sleep(60)
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration beside the module of its handler."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "kit_handlers.py").write_text(HANDLERS)
    (tmp_path / "redelivery.yaml").write_text(TEXT)
    return tmp_path / "redelivery.yaml"


def test_each_source_has_its_policy_and_its_codec(file: Path) -> None:
    """The kit's default topic is that source; the handler's resources are closed with the kit."""
    with HandlerKit.from_config(file, source="orders", environment=ENVIRONMENT) as kit:
        [delivery] = kit.deliver({"n": 1})
        assert [(output.topic, output.value) for output in delivery.outputs] == [("receipts", b'{"topic":"orders"}')]
        closed = type(kit.handler).closed  # type: ignore[attr-defined] # the class of the handler
    assert type(kit.handler).closed == closed + 1  # type: ignore[attr-defined]
    with HandlerKit.from_config(file, source="bills", environment=ENVIRONMENT) as kit:
        assert [delivery.attempt for delivery in kit.deliver(b"raw")] == [1, 2]


def test_each_source_has_its_own_handler(file: Path) -> None:
    """With what the section ``handler`` says besides."""
    file.write_text(TEXT.replace("- topic: bills", '- topic: bills\n    handler: {callable: "kit_handlers:bill"}'))
    with HandlerKit.from_config(file, source="bills", environment=ENVIRONMENT) as kit:
        [rejected] = kit.deliver(b"raw")
    assert isinstance(rejected.decision, DeadLetter)
    assert rejected.failure is not None
    assert rejected.failure.kind is FailureKind.REJECTED


def test_another_handler_keeps_the_rest(file: Path) -> None:
    """Its exceptions are judged by the configuration."""

    def missing(record: Record) -> None:
        raise KeyError(record.value["n"])

    kit = HandlerKit.from_config(file, source="orders", handler=missing, environment=ENVIRONMENT)
    [delivery] = kit.deliver({"n": 1})
    assert delivery.decision.reason == "rejected"  # type: ignore[union-attr] # a dead letter


def test_what_cannot_be_used(file: Path) -> None:
    """A source that is not named or not there, a variable that is not set, no handler."""
    for source in (None, "receipts"):
        with pytest.raises(ValueError, match="one of the sources with source=: orders, bills"):
            HandlerKit.from_config(file, source=source, environment=ENVIRONMENT)
    with pytest.raises(ConfigurationError, match="BROKERS"):
        HandlerKit.from_config(file, source="orders", environment={})
    file.write_text(TEXT.replace("callable: ", "vectorized: true, callable: "))
    with pytest.raises(HandlerLoadError, match="give the function to test as handler="):
        HandlerKit.from_config(file, source="orders", environment=ENVIRONMENT)


SLOW = TEXT.replace(
    "- topic: bills",
    """- topic: bills
    handler: {callable: "kit_handlers:slow", deadline: 10ms}""",
)


def test_a_call_past_its_deadline_fails(file: Path) -> None:
    """As in a worker, in real time."""
    file.write_text(SLOW)
    with HandlerKit.from_config(file, source="bills", environment=ENVIRONMENT) as kit:
        first, last = kit.deliver(b"raw")
    assert isinstance(first.decision, Retry)
    assert isinstance(last.decision, DeadLetter)
    assert last.failure is not None
    assert (last.failure.kind, last.failure.message) == (FailureKind.DEADLINE, "the handler took longer than 0.01 s")


def test_a_missed_deadline_may_mean_that_a_dependency_is_away(file: Path) -> None:
    """If the configuration says so."""
    file.write_text(
        SLOW.replace("- topic: bills", "- topic: bills\n    dependencies: [bank]")
        + "dependencies: {bank: {deadline: true}}\n"
    )
    with HandlerKit.from_config(file, source="bills", environment=ENVIRONMENT) as kit:
        [delivery] = kit.deliver(b"raw")
    assert delivery.decision == Wait("bank")


def test_the_group_is_that_of_the_configuration(file: Path) -> None:
    """The inbox and redeliveries have it, too."""
    groups = []

    def charge(record: Record, context: Context) -> None:
        groups.append(context.group)
        raise ValueError(record.topic)

    HandlerKit.from_config(file, source="bills", handler=charge, environment=ENVIRONMENT).deliver(b"raw")
    HandlerKit(charge, policy=RedeliveryPolicy(maximum_redeliveries=0)).deliver(b"raw")
    assert groups == ["billing", "billing", "kit"]


@pytest.mark.parametrize("mode", ["client", "individual"])
def test_a_mode_in_which_the_handler_acknowledges_is_refused(file: Path, mode: str) -> None:
    """A record that is left unacknowledged has no outcome, so ``Ack`` would be wrong."""
    file.write_text(f"{TEXT}mode: {mode}\n")
    with pytest.raises(ValueError, match=f"mode: {mode}.*redelivery_running"):
        HandlerKit.from_config(file, source="orders", environment=ENVIRONMENT)
