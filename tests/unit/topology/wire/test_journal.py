"""The last outcome that the journal gives an offset of a source that may have been created again."""

import json
from collections.abc import Mapping

from kafka_redelivery.topology.wire.journal import last_outcome

_OLD, _NEW, _MIRRORED = "AAAA11111111", "AAAA22222222", "BBBB11111111"


def entry(mark: str = "", **outcomes: list[list[int]]) -> bytes:
    """A record of the journal."""
    fields: Mapping[str, object] = {"v": 1, "mark": mark} if mark else {"v": 1}
    return json.dumps({**fields, **outcomes}).encode()


def test_the_last_outcome_counts() -> None:
    """Also of entries that earlier versions wrote without a mark."""
    values = [entry(retried=[[3, 5]]), entry(acked=[[6, 6]]), entry(recovered=[[4, 4]]), None, b"[]", b'{"acked": 1}']
    assert last_outcome(values, 4, _NEW) == "recovered"
    assert last_outcome(values, 4, "") == "recovered"
    assert last_outcome(values, 9, _NEW) is None


def test_entries_of_an_older_topic_do_not_count() -> None:
    """Neither do redeliveries that may be of it."""
    values = [entry(_OLD, acked=[[0, 3]], retried=[[4, 4]]), entry(recovered=[[4, 4]]), entry(_NEW, acked=[[0, 0]])]
    assert last_outcome(values, 0, _NEW) == "acked"
    assert last_outcome(values, 3, _NEW) is None
    assert last_outcome(values, 4, _NEW) is None
    assert last_outcome(values, 4, "") == "recovered", "of which topic it is, is unknown"


def test_redeliveries_of_the_new_topic_count() -> None:
    """They follow the entry of the source record."""
    values = [entry(_OLD, acked=[[4, 4]]), entry(_NEW, retried=[[4, 4]]), entry(recovered=[[4, 4]])]
    assert last_outcome(values, 4, _NEW) == "recovered"


def test_a_mirror_keeps_the_journal() -> None:
    """In another cluster the topic has another id, and its records are the same."""
    assert last_outcome([entry(_MIRRORED, acked=[[4, 4]])], 4, _NEW) == "acked"
