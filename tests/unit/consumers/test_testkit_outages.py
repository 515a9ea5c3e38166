"""A test of a handler sees that a record waits for something that is away."""

from datetime import timedelta

import pytest

from kafka_redelivery import Ack, Batch, DeadLetter, HandlerKit, Record, Unavailable, Wait


def _charge(record: Record) -> None:
    if record.value == b"down":
        raise ConnectionRefusedError("no route")
    if record.value == b"said":
        raise Unavailable("bank", retry_after=timedelta(seconds=3))
    if record.value == b"key":
        raise Unavailable("bank", key=True)
    if record.value == b"other":
        raise ValueError("its own fault")


@pytest.mark.parametrize(("value", "key_only"), [(b"down", False), (b"said", False), (b"key", True)])
def test_it_waits_uncounted(value: bytes, key_only: bool) -> None:  # noqa: FBT001 - a parameter
    """The only delivery is no attempt."""
    kit = HandlerKit(_charge, dependencies={"bank": [ConnectionError]})

    (delivery,) = kit.deliver(value)

    assert delivery.decision == Wait("bank", key_only)
    assert delivery.attempt == 0


def test_other_exceptions_fail_their_record() -> None:
    """Also of a handler that depends on something."""
    kit = HandlerKit(_charge, dependencies={"bank": [ConnectionError]})

    assert isinstance(kit.deliver(b"other")[-1].decision, DeadLetter)
    assert isinstance(kit.deliver(b"fine")[-1].decision, Ack)


def test_an_undeclared_dependency_is_named() -> None:
    """A worker would hold the partition, and say so."""
    with pytest.raises(RuntimeError, match="does not declare the dependency 'bank'"):
        HandlerKit(_charge).deliver(b"said")


def test_a_batch_waits_as_a_whole() -> None:
    """Its records are handled again."""

    def charge(batch: Batch) -> None:
        raise ConnectionResetError(f"{len(batch)} records")

    kit = HandlerKit(charge, dependencies={"bank": [ConnectionError]})

    decisions = [deliveries[-1].decision for deliveries in kit.deliver_batch([b"1", b"2"])]

    assert decisions == [Wait("bank"), Wait("bank")]
