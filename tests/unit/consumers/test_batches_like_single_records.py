"""Whatever the calls of a batch handler do, each record gets what a handler of single records would give it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from enum import Enum, auto

from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery import Batch, Context, HandlerKit, Record, Redeliver, RedeliveryPolicy, Reject
from kafka_redelivery.serdes.codec import JsonCodec
from kafka_redelivery.topology.policy.decision import Halt, Retry


class Act(Enum):
    """What becomes of a record in one delivery."""

    SUCCEEDS = auto()
    EMITS = auto()
    FAILS = auto()
    RETRIES = auto()
    IS_REJECTED = auto()
    EMITS_NONSENSE = auto()
    RAISES = auto()
    """In a batch, the call raises without a word about the record."""


class _NoisyError(Exception):
    """Is raised by a call."""


Script = dict[int, list[Act]]
"""What becomes of each record in its deliveries; after the last one it succeeds."""

SCRIPTS: st.SearchStrategy[Script] = st.lists(st.lists(st.sampled_from(Act), max_size=4), min_size=1, max_size=8).map(
    lambda acts: dict(enumerate(acts))
)


def act_of(script: Script, number: int, attempt: int) -> Act:
    """What becomes of a record in this delivery."""
    acts = script[number]
    return acts[attempt - 1] if attempt <= len(acts) else Act.SUCCEEDS


def single(script: Script) -> Callable[[Record, Context], None]:
    """A handler of single records."""

    def handle(record: Record, context: Context) -> None:
        match act_of(script, record.value, context.attempt):
            case Act.EMITS:
                context.send("out", b"%d" % record.value)
            case Act.EMITS_NONSENSE:
                context.send("out", object())
            case Act.FAILS:
                context.send("out", b"lost")
                raise ValueError(record.value)
            case Act.RETRIES:
                raise Redeliver("busy", after=timedelta(seconds=1 + record.value))
            case Act.IS_REJECTED:
                raise Reject("no")
            case Act.RAISES:
                raise _NoisyError

    return handle


def together(script: Script, sizes: list[int]) -> Callable[[Batch], None]:
    """A handler of batches, which notes how many records it has got."""

    def handle(batch: Batch) -> None:
        sizes.append(len(batch))
        for record in batch:
            match act_of(script, record.value, batch.attempt(record)):
                case Act.EMITS:
                    batch.send(record, "out", b"%d" % record.value)
                case Act.EMITS_NONSENSE:
                    batch.send(record, "out", object())
                case Act.FAILS:
                    batch.send(record, "out", b"lost")
                    batch.fail(record, ValueError(record.value))
                case Act.RETRIES:
                    batch.retry(record, "busy", after=timedelta(seconds=1 + record.value))
                case Act.IS_REJECTED:
                    batch.reject(record, "no")
                case Act.RAISES:
                    raise _NoisyError

    return handle


def kit(handler: Callable[..., object]) -> HandlerKit:
    """A kit whose policy has delays that differ from attempt to attempt."""
    policy = RedeliveryPolicy(maximum_redeliveries=2, use_exponential_back_off=True, back_off_multiplier=3)
    return HandlerKit(handler, policy=policy, maximum_handler_delay=60_000, value=JsonCodec())


@given(SCRIPTS)
def test_each_record_has_the_deliveries_that_it_would_have_alone(script: Script) -> None:
    """The same attempts, decisions, failures, outputs and times."""
    sizes: list[int] = []
    found = kit(together(script, sizes)).deliver_batch(list(script))
    assert found == [kit(single(script)).deliver(number) for number in script]
    assert sizes[0] == len(script)


@given(SCRIPTS)
def test_asynchronous_calls_do_the_same(script: Script) -> None:
    """Also if they raise."""
    plain = together(script, [])

    async def handle(batch: Batch) -> None:
        plain(batch)

    assert kit(handle).deliver_batch(list(script)) == kit(plain).deliver_batch(list(script))


def test_records_that_are_due_together_come_together_again() -> None:
    """After a call that raised, they came one by one only then."""
    sizes: list[int] = []
    script = {number: [Act.FAILS] * 2 for number in range(5)} | {5: [Act.RAISES]}
    deliveries = kit(together(script, sizes)).deliver_batch(list(script))
    assert sizes == [6, *[1] * 6, 6, 5]
    assert [len([each for each in own if isinstance(each.decision, Retry)]) for own in deliveries] == [2] * 5 + [1]


def test_memory_that_runs_out_for_a_batch_halts_only_if_one_record_needs_too_much() -> None:
    """The records are handled one by one first."""

    def handle(batch: Batch) -> None:
        if len(batch) > 2 or batch[0].value == 3:
            raise MemoryError

    deliveries = kit(handle).deliver_batch(range(5))
    assert [isinstance(each.decision, Halt) for [each] in deliveries] == [False, False, False, True, False]
