"""A task of the console until it has become a job: letters are read, and a question is asked if they have changed."""

from __future__ import annotations

from http import HTTPStatus

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.requests import action, go_to, text_of
from kafka_redelivery.cli.console.tasks import Phase, Task
from kafka_redelivery.cli.console.users import Role, User


async def show(console: Console, request: Request) -> Response:
    """Show how far a task is; it leads to its job as soon as there is one."""
    task = _task(console, request)
    if task.job:
        if request.headers.get("HX-Request"):
            return Response(headers={"HX-Redirect": f"/jobs/{task.job}"})
        return go_to(f"/jobs/{task.job}")
    return await console.in_thread(_page, console, request, task)


@action(Role.OPERATOR)
async def answer(console: Console, request: Request, form: FormData, user: User) -> Response:
    """Go on, or leave it."""
    task = _task(console, request)
    if task.user.name != user.name:
        raise HTTPException(HTTPStatus.FORBIDDEN, f"{task.user.name} has begun this, and is asked")
    if task.phase is Phase.ASKING and task.chosen is not None:
        total, agreed = task.chosen.total, text_of(form, "answer") == "yes"
        asks = agreed and _needs_number(console, task)
        if asks and text_of(form, "number").replace(",", "") != str(total):
            fault = f"enter the number of letters, {total}, to confirm"
            return await console.in_thread(_page, console, request, task, HTTPStatus.BAD_REQUEST, fault)
        task.agreed = agreed
        task.settled.clear()
        task.answered.set()
        await console.in_thread(task.settled.wait, 3.0)
    return go_to(f"/jobs/{task.job}" if task.job else f"/tasks/{task.id}")


def _page(
    console: Console, request: Request, task: Task, status: int = HTTPStatus.OK, number_fault: str = ""
) -> Response:
    counts = _needs_number(console, task)
    return console.page(request, "task.html", status, task=task, counts=counts, number_fault=number_fault)


def _needs_number(console: Console, task: Task) -> bool:
    letters = 0 if task.chosen is None else task.chosen.total
    return console.options.needs_number(letters, discard=task.what == "discard")


def _task(console: Console, request: Request) -> Task:
    try:
        return console.tasks[request.path_params["task"]]
    except KeyError:
        raise HTTPException(
            HTTPStatus.NOT_FOUND, "this console does not know the task; if it has created a job, that is among the jobs"
        ) from None
