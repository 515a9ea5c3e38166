"""The jobs: how far each is, and what became of its letters."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.job_book import JobsNotReadError, JobState
from kafka_redelivery.cli.console.library_errors import LIBRARY_ERRORS
from kafka_redelivery.cli.console.requests import action, go_to
from kafka_redelivery.cli.console.tasks import Task, signature
from kafka_redelivery.cli.console.users import Role, User
from kafka_redelivery.dead_letters.audit import write_note
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.run import cancel as cancel_job

_SHOWN: Final = 100
_FRESH_S: Final = 3.0
_SETTLED_S: Final = 2.0


async def show(console: Console, request: Request) -> Response:
    """Show all jobs."""
    tasks = [each for each in console.tasks.tasks.values() if not each.job]
    return await console.in_thread(
        console.page,
        request,
        "jobs.html",
        jobs=console.jobs.value,
        running=console.tasks.running,
        tasks=tasks[::-1][:20],
        shown=_SHOWN,
    )


async def show_one(console: Console, request: Request) -> Response:
    """Show one job."""
    return await console.in_thread(_show_one, console, request)


@action(Role.OPERATOR)
async def cancel(console: Console, request: Request, _form: FormData, user: User) -> Response:
    """Cancel a job for good, wherever it runs."""
    return await console.in_thread(_cancel, console, request, user)


@action(Role.OPERATOR)
async def resume(console: Console, request: Request, _form: FormData, user: User) -> Response:
    """Go on with a job in this process, or take it over from another one."""
    return await console.in_thread(_resume, console, request, user)


def _show_one(console: Console, request: Request, problem: str = "") -> Response:
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
    raise JobsNotReadError(problem.text if problem else "the topics of the jobs are being read")


def _known(console: Console, name: str) -> JobState | None:
    return console.jobs.value.jobs.get(name) if console.jobs.value else None


def _cancel(console: Console, request: Request, user: User) -> Response:
    job = _job(console, request)
    name = str(job.document["job"])
    try:
        ledger = Ledger(console.settings)
        cancel_job(console.settings, ledger, ledger.job(name).id, by=signature(user))
    except LIBRARY_ERRORS as error:
        return _show_one(console, request, str(error))
    console.jobs.produce_now(_FRESH_S)
    return go_to(f"/jobs/{name}")


def _resume(console: Console, request: Request, user: User) -> Response:
    job = _job(console, request)
    name = str(job.document["job"])
    if name in console.tasks.running:
        return _show_one(console, request, "it runs in this console already")
    if not job.active:
        return _show_one(console, request, "it has ended")

    def make(_: Task) -> tuple[Ledger, str]:
        write_note(console.settings, signature(user), "resume job", job=name)
        ledger = Ledger(console.settings)
        return ledger, ledger.job(name).id

    console.tasks.begin(user, "resume", make).settled.wait(_SETTLED_S)
    console.jobs.produce_now(_FRESH_S)
    return go_to(f"/jobs/{name}")
