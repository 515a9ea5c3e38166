"""A record that cannot be decoded is dead-lettered byte for byte, and its partition continues."""

import json

from tests.scenarios.cluster import Sent
from tests.scenarios.running import Group, exactly, script

_BROKEN = [
    Sent(b"{not json", b"key", [("traceparent", b"00-ab"), ("twice", b"1"), ("twice", b"2")], 0),
    Sent(b"\xff\xfe\x00\x01" * 50, b"\x00\xff", [("null", None), ("empty", b"")], 0),
    Sent(b"", None, [("JMSXDeliveryCount", b"the user's, and ours now")], 1),
    Sent(b"\x00" * 5, b"", [], 1),
]


def test_undecodable_bytes_are_dead_lettered_unchanged(group: Group) -> None:
    """Key, value and the user's headers are unchanged; no handler is called; the records behind it are handled."""
    group.prepare()
    good = [script(n, ["ok"], partition=n % 2) for n in range(20)]
    group.cluster.produce(group.source, [*good[:10], *_BROKEN, *good[10:]])
    group.worker()
    group.settle()
    group.stop()

    sources = {
        (record.partition, record.offset): record
        for record in group.cluster.read(group.source)
        if record.value in {sent.value for sent in _BROKEN}
    }
    letters = group.cluster.read(group.dead_letters)
    assert len(letters) == len(sources) == len(_BROKEN)
    for letter in letters:
        partition, _, offset = (letter.header("_AMQ_ORIG_MESSAGE_ID") or "").rpartition("@")
        origin = sources.pop((letter.partition, int(offset)))
        assert partition == f"{group.source}-{origin.partition}"
        assert (letter.key, letter.value) == (origin.key, origin.value)
        kept = [pair for pair in origin.headers if pair[0] != "JMSXDeliveryCount"]
        assert list(letter.headers[: len(kept)]) == kept
        assert letter.header("JMSXDeliveryCount") == "0"
        assert json.loads(letter.header("dlqDeliveryFailureCause") or "")["reason"] == "undecodable"
    assert group.outputs() == exactly(range(20))


def test_a_null_value_stays_null(group: Group) -> None:
    """A rejected tombstone is a tombstone among the dead letters, not an empty value."""
    group.prepare(handler={"callable": "tests.scenarios.handlers:refuse_all"}, sources=[{"topic": group.source}])
    group.cluster.produce(group.source, [Sent(None, b"gone", [("mine", b"1")], 0), Sent(b"", b"empty", [], 0)])
    group.worker()
    group.settle()
    group.stop()

    letters = group.cluster.read(group.dead_letters)
    assert [(letter.key, letter.value) for letter in letters] == [(b"gone", None), (b"empty", b"")]
    assert letters[0].headers[0] == ("mine", b"1")
