"""The form of a redrive says which letters its page has counted, so that later ones are not sent."""

from collections import Counter
from contextlib import nullcontext
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from kafka_redelivery.cli.console import tasks
from kafka_redelivery.cli.console.access import Visitor
from kafka_redelivery.cli.console.letters import IndexState
from kafka_redelivery.cli.console.pages import send
from kafka_redelivery.cli.console.pages.send import Asked, _ends
from kafka_redelivery.cli.console.selection_form import Chosen
from kafka_redelivery.dead_letters.creation import Preview
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.topology.redrive.job import JobOptions
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.transport.protocols import Partition
from tests.unit.cli.console.consoles import client, console_of, guarded
from tests.unit.consumers.records import NOW


def test_the_ends_come_back() -> None:
    """As they were when the page was made."""
    ends = {Partition("DLQ.orders", 1): 7, Partition("DLQ.orders", 0): 2**53 + 1}
    asked = Asked(Chosen({}, Selection(), {}), JobOptions(group="billing"), {}, {}, ends=ends)
    assert _ends(asked.ends_text) == ends


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", "x", "[[1]]", '[["t", "x", 1]]', "[" * 9000, '{"a": 1}'])
def test_a_form_without_them(text: str) -> None:
    """Another program may post anything: the present ends then count, and the number of letters has to fit."""
    assert _ends(text) is None


def test_letters_without_a_topic_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the box is ticked, with their number by topic, and so is the job."""

    def preview(*given: Any, skip_refused: bool) -> Preview:  # noqa: ANN401 - as of the page
        assert skip_refused
        targets = Counter({"billing.ready.orders": 7})
        return Preview(given[1].selection, given[2], None, NOW, total=7, targets=targets, skipped=Counter(gone=3))

    made: list[bool] = []

    def create_job(*_: Any, skip_refused: bool) -> None:  # noqa: ANN401 - as of the console
        made.append(skip_refused)

    monkeypatch.setattr(send, "preview_of", preview)
    monkeypatch.setattr(tasks, "create_job", create_job)
    monkeypatch.setattr(tasks.Tasks, "index", lambda *_: nullcontext())
    console = console_of(tmp_path)
    ends = {Partition("DLQ.orders", 0): 10}
    console.index.value = IndexState(1, {}, ends, TopicIds())
    browser = client(guarded(console))
    page = browser.get("/redrive?skip=1").text
    assert '<b>3</b> are left out: there is no topic <span class="mono wrap">gone</span> to send to' in page
    assert 'name="skip" value="1" checked' in page
    visitor = console.authentication.visitor(None)  # type: ignore[arg-type] # the one user of this machine
    assert isinstance(visitor, Visitor)
    form = {"csrf": visitor.csrf, "skip": "1", "expected": "7", "ends": '[["DLQ.orders", 0, 10]]'}
    assert browser.post("/redrive", data=form).status_code == HTTPStatus.SEE_OTHER
    assert made == [True]
