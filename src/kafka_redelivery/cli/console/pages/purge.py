"""Purge: removes letters that are done, for good."""

from __future__ import annotations

from contextlib import closing
from http import HTTPStatus

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.library_errors import LIBRARY_ERRORS
from kafka_redelivery.cli.console.requests import action, go_to, refuse_without, text_of
from kafka_redelivery.cli.console.tasks import Task, signature
from kafka_redelivery.cli.console.users import Role, User
from kafka_redelivery.cli.views.dlq import removable_letters
from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.audit import write_note
from kafka_redelivery.dead_letters.created_again import refuse_created_again
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.purge import Removable, removable, remove, topics_of
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.transport.protocols import Partition

_SETTLED_S = 3.0


async def show(console: Console, request: Request) -> Response:
    """Show what would be removed."""
    return await console.in_thread(_show, console, request)


@action(Role.ADMIN)
async def purge(console: Console, request: Request, form: FormData, user: User) -> Response:
    """Remove letters."""
    return await console.in_thread(_purge, console, request, form, user)


def _show(console: Console, request: Request, fault: str = "", status: int = HTTPStatus.OK) -> Response:
    refuse_without(console, request, Role.ADMIN)
    found: dict[Partition, Removable] = {}
    try:
        found = _removable(console)
    except LIBRARY_ERRORS as error:
        fault, status = str(error), HTTPStatus.SERVICE_UNAVAILABLE
    total, topics = removable_letters(found), topics_of(found)
    return console.page(request, "purge.html", status, found=found, total=total, topics=topics, purge_fault=fault)


def _removable(console: Console) -> dict[Partition, Removable]:
    state = console.index.value
    if state is None:
        raise RedriveError("the index of dead letters is not there yet")
    return console.letters.ask(
        ("purge", tuple(sorted(state.ends.items())), state.ids.text()),
        lambda index: removable(index, state.ends),
    )


def _purge(console: Console, request: Request, form: FormData, user: User) -> Response:
    shown = _removable(console)
    problem = TopicIds.read(text_of(form, "topics")).difference(topics_of(shown), "the preview")
    if problem:
        return _show(console, request, f"{problem}; nothing was removed", HTTPStatus.CONFLICT)
    total = removable_letters(shown)
    if not total:
        raise HTTPException(HTTPStatus.CONFLICT, "there is nothing to remove any more")
    if text_of(form, "number").replace(",", "") != str(total):
        return _show(console, request, f"enter the number of letters, {total}, to confirm", HTTPStatus.BAD_REQUEST)

    def make(task: Task) -> None:
        ends = {partition: each.before for partition, each in shown.items()}  # nothing that was not shown is removed
        with closing(console.tasks.index(console.settings.group, Selection())) as index:
            index.refresh(console.tasks.progress(task))
            topics = index.topics
            refuse_created_again(topics_of(shown), topics, "removed")
            chosen = removable(index, ends)
        left = removable_letters(chosen)
        about = f"{left} letters from the start of each partition"
        write_note(console.settings, signature(user), "purge", about, topics=topics.only(topics_of(chosen).ids))
        failed = remove(console.settings, chosen)
        task.result = f"{removable_letters(chosen, failed)} dead letters are removed"
        if failed:
            why = "; ".join(f"{each.topic}-{each.number} stays: {reason}" for each, reason in failed.items())
            raise RedriveError(f"{task.result}; {why}")

    task = console.tasks.begin(user, "purge", make)
    task.settled.wait(_SETTLED_S)
    return go_to(f"/tasks/{task.id}")
