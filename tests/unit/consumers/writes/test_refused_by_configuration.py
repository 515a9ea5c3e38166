"""The configuration of a topic of the group decides about no record. The topic of an output is the handler's choice."""

import pytest

from kafka_redelivery.consumers.telemetry.observers import HaltCause, HaltLabel
from kafka_redelivery.consumers.writes.engine import Refused
from kafka_redelivery.topology.policy.decision import Failure, FailureKind
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.transport.errors import RefusalCause, RefusedRecord, WriteRefusedError
from tests.unit.consumers.batches import DEAD, RAISED, REJECTED, TIER, handled, output
from tests.unit.consumers.doubles import Clock
from tests.unit.consumers.records import record, source
from tests.unit.consumers.writes.test_missing_right import ORDERS, Parts, forbidden

_WHY = "Broker: Broker failed to validate record"


def _refused(*indexes: int, others_written: bool = False) -> WriteRefusedError:
    """The topic of these records is compacted, and they have no key."""
    refused = [RefusedRecord(index, _WHY, RefusalCause.OTHER) for index in indexes]
    return WriteRefusedError(refused, others_written=others_written)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the halts."""
    clock = Clock()
    monkeypatch.setattr("kafka_redelivery.consumers.flow.stops.monotonic_s", clock)
    return clock


@pytest.mark.parametrize(("failure", "topic"), [(RAISED, TIER), (REJECTED, DEAD)], ids=["retry", "dead letter"])
def test_a_partition_waits_until_the_topic_takes_its_record(clock: Clock, failure: Failure, topic: str) -> None:
    """However long that takes. The halt names the topic and the fix, and nothing is decided again."""
    parts = Parts(_refused(0), _refused(0), _refused(0))
    parts.committer.batch.add(handled(source(), record(0), failures={0: failure}))
    assert isinstance(parts.write(), Refused)
    for _ in range(2):
        assert parts.stops.unread == {ORDERS[0]}
        assert parts.tried_later(clock)
    assert parts.shared.write_failures == {}
    parts.stops.report()
    assert parts.observer.halted_numbers == {HaltLabel(topic, HaltCause.CONFIGURATION): 1}
    [cause] = parts.observer.halt_causes
    assert f"{_WHY}; change the configuration of {topic}" in cause
    assert parts.tried_later(clock)
    assert parts.stops.unread == set()


def test_what_is_written_beside_it_is_committed() -> None:
    """If there is no transaction that aborts it."""
    parts = Parts(_refused(0, others_written=True))
    parts.committer.batch.add(handled(source(), record(0), failures={0: RAISED}))
    parts.committer.batch.add(handled(source(partition=1), record(0, partition=1)))
    parts.write()
    assert parts.stops.unread == {ORDERS[0]}
    assert parts.writer.finished == [{ORDERS[1]: Checkpoint(1, "")}]


def test_a_refused_output_is_a_failed_delivery() -> None:
    """Also if its partition was halted for another cause, which has gone."""
    parts = Parts(_refused(0))
    parts.committer.batch.add(handled(source(), record(0), outputs={0: [output(b"a")]}))
    parts.write()
    assert parts.shared.write_failures == {(ORDERS[0], 0): Failure(FailureKind.RAISED, "WriteRefused", _WHY)}
    assert parts.stops.unread == set()


@pytest.mark.parametrize("is_output", [True, False])
def test_a_refusal_in_place_of_another_cause(clock: Clock, *, is_output: bool) -> None:
    """The next write decides about an output. A record for a topic of the group waits further."""
    parts = Parts(forbidden(0), _refused(0))
    outputs, failures = ({0: [output(b"a")]}, None) if is_output else (None, {0: RAISED})
    parts.committer.batch.add(handled(source(), record(0), outputs=outputs, failures=failures))
    parts.write()
    assert parts.tried_later(clock)
    assert parts.stops.unread == (set() if is_output else {ORDERS[0]})


def test_a_trial_answers_for_its_record_alone(clock: Clock) -> None:
    """The topic may take another one, with a key. That is tried, too, however often the first one is refused."""
    parts = Parts(_refused(0, 1), _refused(0))
    for number in range(2):
        parts.committer.batch.add(handled(source(partition=number), record(0, partition=number), failures={0: RAISED}))
    parts.write()
    clock.advance(1)
    for _ in range(2):
        assert parts.committer.try_halted(write_waits=False)
        parts.committer.end(None)
    assert parts.stops.unread == {ORDERS[0]}
