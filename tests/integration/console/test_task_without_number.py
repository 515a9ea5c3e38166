"""A task that asks again, because the topics say something else than the preview, needs the number of letters."""

from pathlib import Path

import pytest

from kafka_redelivery.cli.console.access import LocalUser, Role, User
from kafka_redelivery.cli.console.tasks import Phase, Task
from kafka_redelivery.dead_letters.creation import Preview
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.topology.redrive.job import JobOptions
from tests.integration.console.test_protection import _csrf
from tests.unit.cli.console.consoles import client, console_of, guarded


def _answered(tmp_path: Path, what: str, total: int, **answer: str) -> tuple[Task, int]:
    """Answer a task that asks, and return it with the status of the response."""
    user = LocalUser(User("ann", Role.OPERATOR))
    console = console_of(tmp_path, user)
    options = JobOptions(group="billing", discard=what == "discard")
    chosen = Preview(Selection(), options, None, 0, total=total)
    task = Task("t1", User("ann", Role.OPERATOR), what, phase=Phase.ASKING, chosen=chosen)
    console.tasks.tasks["t1"] = task
    task.settled.set()
    browser = client(guarded(console))
    shown = browser.get("/tasks/t1").text
    assert ('name="number"' in shown) is (what == "discard" or total > 100)
    return task, browser.post("/tasks/t1", data={"csrf": _csrf(user), **answer}).status_code


@pytest.mark.parametrize("number", [{}, {"number": ""}, {"number": "999999"}])
@pytest.mark.parametrize(("what", "total"), [("discard", 1_000_000), ("discard", 1), ("redrive", 101)])
def test_an_empty_field_is_no_agreement(tmp_path: Path, what: str, total: int, number: dict[str, str]) -> None:
    """A redrive of more than `console.confirmOver` letters asks for their number, and so does each discard."""
    task, status = _answered(tmp_path, what, total, answer="yes", **number)
    assert (task.agreed, task.answered.is_set(), status) == (False, False, 400)


def test_the_number_agrees(tmp_path: Path) -> None:
    """With or without commas, as the page shows it."""
    for number in ("1000000", "1,000,000"):
        task, _ = _answered(tmp_path, "discard", 1_000_000, answer="yes", number=number)
        assert task.agreed


def test_few_letters_are_sent_without_their_number(tmp_path: Path) -> None:
    """`console.confirmOver` is 100 by default."""
    task, _ = _answered(tmp_path, "redrive", 100, answer="yes")
    assert task.agreed


def test_no_needs_no_number(tmp_path: Path) -> None:
    """Whoever leaves it enters nothing."""
    task, _ = _answered(tmp_path, "discard", 1_000_000, answer="no")
    assert (task.agreed, task.answered.is_set()) == (False, True)
