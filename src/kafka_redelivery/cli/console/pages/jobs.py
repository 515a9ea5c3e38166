"""The jobs, how far each is and what became of its letters; and who did what, when, and to which letters."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kafka_redelivery.cli.console.access import Role, User
from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.job_book import JobState
from kafka_redelivery.cli.console.letters import LIBRARY_ERRORS, NotReadYetError
from kafka_redelivery.cli.console.requests import action, go_to, page_number, refuse_without
from kafka_redelivery.cli.console.tasks import Task, signature
from kafka_redelivery.dead_letters.audit import write_note
from kafka_redelivery.dead_letters.jobs import OpenJob

_SHOWN: Final = 100
_ENTRIES: Final = 100
"""Entries on a page of the audit trail."""

_FRESH_S: Final = 3.0
_SETTLED_S: Final = 2.0


def show(console: Console, request: Request) -> Response:
    """Show all jobs."""
    tasks = [each for each in list(console.tasks.tasks.values()) if not each.job]
    return console.page(
        request,
        "jobs.html",
        jobs=console.jobs.value,
        running=console.tasks.running,
        tasks=tasks[::-1][:20],
        shown=_SHOWN,
    )


def show_one(console: Console, request: Request, problem: str = "") -> Response:
    """Show one job; ``problem``: why it was not changed."""
    job = _job(console, request)
    name = str(job.document["job"])
    return console.page(
        request,
        "job.html",
        200 if not problem else HTTPStatus.CONFLICT,
        job=job,
        doc=job.document,
        here=name in console.tasks.running,
        stopped=problem or console.tasks.problem_of(name),
    )


def _job(console: Console, request: Request) -> JobState:
    name = request.path_params["job"]
    if found := _known(console, name):
        return found
    current = console.jobs.produce_now(_FRESH_S)  # it may have been created a moment ago
    if found := _known(console, name):
        return found
    if current:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"there is no job {name} of group {console.settings.group}")
    problem = console.jobs.problem
    raise NotReadYetError(problem.text if problem else "the topics of the jobs are being read", "jobs")


def _known(console: Console, name: str) -> JobState | None:
    return console.jobs.value.jobs.get(name) if console.jobs.value else None


def show_cancel(console: Console, request: Request) -> Response:
    """Ask before a job is cancelled, with what it has sent and what it has not."""
    refuse_without(console, request, Role.OPERATOR)
    job = _job(console, request)
    if not job.goes_on:
        return go_to(f"/jobs/{job.document['job']}")
    return console.page(request, "cancel.html", job=job, doc=job.document)


@action(Role.OPERATOR)
def cancel(console: Console, request: Request, _form: FormData, user: User) -> Response:
    """Cancel a job for good, wherever it runs."""
    name = str(_job(console, request).document["job"])
    try:
        OpenJob.named(console.settings, name).cancel(signature(user))
    except LIBRARY_ERRORS as error:
        return show_one(console, request, str(error))
    console.jobs.produce_now(_FRESH_S)
    return go_to(f"/jobs/{name}")


@action(Role.OPERATOR)
def resume(console: Console, request: Request, _form: FormData, user: User) -> Response:
    """Go on with a job in this process, or take it over from another one."""
    job = _job(console, request)
    name = str(job.document["job"])
    if name in console.tasks.running:
        return show_one(console, request, "it runs in this console already")
    if not job.active:
        return show_one(console, request, "it has ended")

    def make(_: Task) -> OpenJob:
        write_note(console.settings, signature(user), "resume job", job=name)
        return OpenJob.named(console.settings, name)

    console.tasks.begin(user, "resume", make).settled.wait(_SETTLED_S)
    console.jobs.produce_now(_FRESH_S)
    return go_to(f"/jobs/{name}")


def show_trail(console: Console, request: Request) -> Response:
    """Show the audit trail."""
    jobs = console.jobs.value
    by = request.query_params.get("by", "").strip()
    what = request.query_params.get("what", "").strip()
    entries = [] if jobs is None else jobs.trail
    kinds = sorted({each.what for each in entries})
    found = [each for each in entries if by.lower() in each.by.lower() and what in ("", each.what)]
    number = page_number(request)
    return console.page(
        request,
        "audit.html",
        known=jobs is not None,
        entries=found[(number - 1) * _ENTRIES : number * _ENTRIES],
        total=len(found),
        number=number,
        pages=max(1, -(-len(found) // _ENTRIES)),
        by=by,
        what=what,
        kinds=kinds,
    )
