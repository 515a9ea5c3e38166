"""A job is cancelled after a question, and its page then says what was sent and what was not, and offers no way on."""

from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.job_book import Jobs, JobState
from tests.unit.cli.console.consoles import client, console_of, guarded

NAME = "3f9a2c01bd"


def _document(state: str, **more: object) -> dict[str, Any]:
    numbers = "recovered deadAgain discarded expired setAside unknown gone parked refused contradictory inOtherJobs"
    return {
        **dict.fromkeys(numbers.split(), 0),
        "job": NAME,
        "kind": "redrive",
        "state": state,
        "createdMs": 0,
        "by": "ann",
        "note": None,
        "cancelledMs": None,
        "cancelledBy": None,
        "letters": 400,
        "sent": 120,
        "refusals": [],
        "createdAgain": None,
        "options": {"to": None, "ready": None, "rate": None, "again": False, "keepAttempts": False, "maxRedrives": 3},
        "selection": {},
        "edited": None,
        **more,
    }


def _console(tmp_path: Path, document: dict[str, Any], rate: float) -> Console:
    found = console_of(tmp_path)
    found.jobs.value = Jobs({NAME: JobState(document, 120, rate)}, [], 0)
    return found


def test_it_asks_with_what_is_sent_and_what_is_not(tmp_path: Path) -> None:
    """The page of the job leads there; a form alone cancels."""
    browser = client(guarded(_console(tmp_path, _document("unfinished"), 5)))
    page = browser.get(f"/jobs/{NAME}").text
    assert f'href="/jobs/{NAME}/cancel"' in page
    assert 'action="/jobs/3f9a2c01bd/cancel"' not in page
    asked = browser.get(f"/jobs/{NAME}/cancel").text
    assert "<b>120</b> of 400 letters are sent" in asked
    assert "<b>280</b> are not" in asked


@pytest.mark.parametrize("state", ["cancelling", "cancelled"])
def test_a_cancelled_job_does_not_go_on(tmp_path: Path, state: str) -> None:
    """However fast it was: no time that is left, and no command that it would refuse."""
    document = _document(state, cancelledMs=1, cancelledBy="otto (console, root@host)")
    browser = client(guarded(_console(tmp_path, document, 5)))
    page = browser.get(f"/jobs/{NAME}").text
    assert " left" not in page.partition('id="job"')[2]
    assert "resume" not in page.partition('id="job"')[2]
    assert "Cancelled by otto (console, root@host)" in page
    assert "120 letters were sent" in page
    assert ("280 were not, and are free for other jobs" in page) == (state == "cancelled")
    answer = browser.get(f"/jobs/{NAME}/cancel")
    assert (answer.status_code, answer.headers["Location"]) == (HTTPStatus.SEE_OTHER, f"/jobs/{NAME}")


def test_a_job_that_runs_says_how_long(tmp_path: Path) -> None:
    """280 letters at 5 in a second."""
    page = client(guarded(_console(tmp_path, _document("unfinished"), 5))).get(f"/jobs/{NAME}").text
    assert "about 56 s left" in page
    assert "redelivery dlq resume" in page.partition('id="job"')[2].partition("How it was made")[0], (
        "stays when it ends"
    )


def test_the_list_says_why(tmp_path: Path) -> None:
    """The note tells jobs apart better than their names do."""
    document = _document("unfinished", note="bank says <fixed>")
    page = client(guarded(_console(tmp_path, document, 5))).get("/jobs").text
    assert "“bank says &lt;fixed&gt;”" in page
