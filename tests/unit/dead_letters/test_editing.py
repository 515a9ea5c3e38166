"""What keeps a letter from being edited may happen while a person edits it."""

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters import editing
from kafka_redelivery.dead_letters.creation import Preview
from kafka_redelivery.dead_letters.editing import LetterEditing
from kafka_redelivery.dead_letters.index.index import Index
from kafka_redelivery.dead_letters.letter import LetterState, Selection, Standing
from kafka_redelivery.topology.redrive.job import JobOptions
from tests.unit.consumers.records import NOW

OPTIONS = JobOptions(group="billing")


@pytest.mark.parametrize(
    ("standing", "now", "problem"),
    [
        (Standing(), {"in_jobs": Counter(theirs=1)}, r"job theirs has it; end that job first: cancel theirs$"),
        (Standing(LetterState.IN_JOB, "theirs"), {"in_jobs": Counter(later=1)}, "cancel later$"),
        (Standing(), {"sent_before": 1}, "it is sent or set aside already; --again"),
        (Standing(LetterState.PARKED, "theirs", 3), {"sent_before": 1}, "it is parked already; --again"),
        (Standing(), {}, "it has been deleted"),
    ],
)
def test_why_it_cannot_be_sent(
    monkeypatch: pytest.MonkeyPatch, standing: Standing, now: dict[str, Any], problem: str
) -> None:
    """The error says where the letter is now, not where it was when it was found."""
    edited = LetterEditing.__new__(LetterEditing)
    edited._options, edited.found = OPTIONS, cast("Any", (SimpleNamespace(id="DLQ.orders-0@1"), standing, None))
    edited._settings = cast("Any", None)
    edited.ledger = cast("Any", SimpleNamespace(partition_counts={}, command=lambda *names: " ".join(names)))
    monkeypatch.setattr(editing, "preview", lambda *_: Preview(Selection(), OPTIONS, None, NOW, **now))
    with pytest.raises(RedriveError, match=problem):
        edited._preview(cast("Index", None))
