"""The records of the control topic."""

import json

import pytest

from kafka_redelivery.topology.errors import ControlRecordError
from kafka_redelivery.topology.wire.control import (
    ControlState,
    control_state,
    first_offset_record,
    former_record,
    level_record,
    saved_record,
    source_record,
    tier_record,
    unstarted_record,
    width_record,
    withdrawn_records,
)
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.topology.wire.topic_mark import topic_mark

NOW = 1_700_000_000_000


def test_each_kind_of_record_is_read_back() -> None:
    """Names of topics may contain dots and dashes."""
    records = [
        source_record("my.orders-1", 2, NOW),
        first_offset_record("my.orders-1", 0, 17, NOW),
        unstarted_record("my.orders-1", 1, NOW),
        tier_record("g.retry.1s", None, NOW),
        tier_record("g.retry.9s", NOW, NOW),
        width_record(16, NOW),
        level_record(2, NOW),
    ]
    assert control_state(records) == ControlState(
        exists=True,
        sources={"my.orders-1": 2},
        committed={("my.orders-1", 0): 17},
        unstarted={("my.orders-1", 1): NOW},
        retired={"g.retry.1s": None, "g.retry.9s": NOW},
        width=16,
        level=2,
    )
    assert control_state([]).level == ControlState().level == 1


def test_a_saved_position_holds_until_the_next_record_of_its_partition() -> None:
    """The partition is read again."""
    last = Checkpoint(17, "p3:x")
    saved = saved_record("orders", 0, last, "here", NOW)
    state = control_state([first_offset_record("orders", 0, 5, NOW), saved], "here")
    assert (state.committed, state.saved) == ({("orders", 0): 17}, {("orders", 0): last})
    assert control_state([saved, first_offset_record("orders", 0, 17, NOW)], "here").saved == {}
    elsewhere = control_state([saved], "there")
    assert (elsewhere.committed, elsewhere.saved) == ({("orders", 0): 17}, {}), "a mirror has copied it"


def test_what_is_known_of_an_older_topic_of_a_name_is_void() -> None:
    """But for the offset that the group had there. What names no topic, or one of another cluster, still holds."""
    older, present, elsewhere = (topic_mark(c, 22 * t) for c, t in (("here", "o"), ("here", "p"), ("there", "o")))
    last = Checkpoint(17, "")
    records = [
        source_record("orders", 2, NOW, older),
        saved_record("orders", 0, last, "here", NOW, older),
        first_offset_record("orders", 1, 4, NOW),
        first_offset_record("orders", 2, 6, NOW, elsewhere),
        first_offset_record("orders", 3, 8, NOW, present),
        former_record("orders", 3, 3, NOW),
    ]
    state = control_state(records, "here")
    assert state.of_topics({"orders": ""}) == state.of_topics({}) == state
    now = state.of_topics({"orders": present})
    assert now.saved == {}
    assert [state.was_added("orders", n, mark) for n, mark in ((1, older), (2, older), (1, present))] == [
        False,
        True,
        True,
    ]
    assert now.committed == {("orders", 1): 4, ("orders", 2): 6, ("orders", 3): 8}
    assert now.former == {("orders", 0): 17, ("orders", 3): 3}
    assert now.is_new("orders", 0)
    assert state.of_topics({("orders", 3): present}) == state, "only this partition is known to be of another topic"
    assert state.of_topics({("orders", 0): present}).former.keys() == {("orders", 0), ("orders", 3)}
    known = state.of_topics({"orders": present}, {("orders", 1): 9})
    assert (known.is_new("orders", 1), known.former["orders", 1]) == (True, 9)


def test_nothing_is_known_of_a_partition_of_a_deleted_topic() -> None:
    """Else one of the same name that starts at its end would start where the deleted one waited."""
    known = [
        first_offset_record("orders", 0, 5, NOW),
        former_record("orders", 0, 7, NOW),
        unstarted_record("orders", 0, NOW),
    ]
    assert control_state([*known, *withdrawn_records("orders", 0)]) == ControlState(exists=True)


def test_values_bear_a_version_and_a_time() -> None:
    """A later version may add fields."""
    assert source_record("orders", 2, NOW).key == b"source/orders"
    value = json.loads(source_record("orders", 2, NOW).value or b"")
    assert value == {"version": 1, "firstSeenMs": NOW, "partitions": 2}


def test_the_newest_record_of_a_key_counts() -> None:
    """Compaction has not run yet. A record without a value removes what was known."""
    tier = tier_record("g.retry.1s", None, NOW)
    later = tier_record("g.retry.1s", NOW + 1, NOW + 1)
    assert control_state([tier, later]).retired == {"g.retry.1s": NOW + 1}
    assert control_state([tier, (tier.key, None)]).retired == {}


def test_keys_and_fields_of_a_later_version_are_ignored() -> None:
    """Processes of two versions may run side by side."""
    key, value = first_offset_record("orders", 0, 5, NOW)
    wider = json.dumps(json.loads(value or b"") | {"version": 2, "more": []}).encode()
    assert control_state([(b"pause/orders", b"x"), (b"a", b""), (key, wider)]).committed == {("orders", 0): 5}


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"x", b"[]", b"{}", b"[" * 100_000),
        *(b'{"offset": %s}' % offset for offset in (b'"x"', b"null", b"1e999", b"NaN", b"1.5", b"true", b'"7"', b"-2")),
        b'{"offset": 9223372036854775808}',
        b'{"offset": -1, "metadata": "", "cluster": ""}',
    ],
)
def test_a_record_of_another_program_is_an_error(value: bytes) -> None:
    """What the group knows must not be guessed. The message names the key."""
    with pytest.raises(ControlRecordError, match="partition/orders/0"):
        control_state([(b"partition/orders/0", value)])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"partition/orders/-1", b'{"offset":1}'),
        (b"partition/orders/2147483648", b'{"offset":1}'),
        (b"partition/orders/one", b'{"offset":1}'),
        (b"source/orders", b'{"partitions":-1}'),
        (b"source/orders", b'{"partitions":1e999}'),
        (b"tier/t", b'{"retiredMs":1e999}'),
        (b"tier/t", b'{"retiredMs":9223372036854775807}'),  # `topology check` shows it as a date
        (b"width", b'{"partitions":0}'),
        (b"feature-level", b'{"level":1e999}'),
        (b"feature-level", b'{"level":0}'),
        (b"\xff", b"{}"),
    ],
)
def test_numbers_are_those_that_kafka_has(key: bytes, value: bytes) -> None:
    """A negative offset would mean the start or the end of the log to the client."""
    with pytest.raises(ControlRecordError):
        control_state([(key, value)])


def test_what_is_new() -> None:
    """Nothing is new as long as there is no control topic."""
    state = control_state([source_record("orders", 2, NOW), first_offset_record("orders", 0, 17, NOW)])
    assert [state.is_new("orders", number) for number in range(3)] == [False, True, True]
    assert [state.was_added("orders", number) for number in range(3)] == [False, False, True]
    assert not state.was_added("bills", 5)
    assert not ControlState().is_new("orders", 0)
