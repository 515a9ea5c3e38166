"""Where a record is: one search for all places, by key, id or header; and what a text means otherwise."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.guard import led_here
from kafka_redelivery.cli.console.letters import LIBRARY_ERRORS, Listed, listed
from kafka_redelivery.cli.console.requests import go_to
from kafka_redelivery.cli.console.selection_form import Chosen, chosen
from kafka_redelivery.consumers.operations.find import Found, State, Wanted
from kafka_redelivery.dead_letters.index.sql import quoted
from kafka_redelivery.topology.errors import OptionError
from kafka_redelivery.topology.policy.lineage import parse_message_id

_LIMITS: Final = (200_000, 1_000_000, 5_000_000)
"""How many records of each kind of topic are read at most."""

_SHOWN: Final = 100
_SOON_S: Final = 0.8
"""A search that ends so soon is shown without its progress."""

_FINGERPRINT: Final = re.compile("[0-9a-f]{16}")
_JOB: Final = re.compile("[0-9a-f]{10}")


def search(console: Console, request: Request) -> Response:
    """Lead to what a text means."""
    text = request.query_params.get("q", "").strip()[:1000]
    if _FINGERPRINT.fullmatch(text):
        return go_to(f"/letters?{urlencode({'fingerprint': text})}")
    if _JOB.fullmatch(text) and console.jobs.value is not None and text in console.jobs.value.jobs:
        return go_to(f"/jobs/{text}")
    try:
        topic, _, _ = parse_message_id(text)
    except ValueError:
        pass
    else:
        sources, state = {each.topic for each in console.settings.sources}, console.index.value
        if topic not in sources and (state is None or topic in {each.topic for each in state.ends}):
            return go_to(f"/letters/{quote(text)}")
    return go_to(f"/find?{urlencode({'q': text})}" if text else "/find")


def show(console: Console, request: Request) -> Response:
    """Show where a record is, as far as the search has come."""
    given = request.query_params
    text, header = given.get("q", "").strip()[:1000], given.get("header", "").strip()[:1000]
    limit = next((each for each in _LIMITS if str(each) == given.get("limit")), _LIMITS[0])
    further = next((each for each in _LIMITS if each > limit), None)
    context: dict[str, Any] = {"q": text, "header": header, "limit": limit, "further": further, "fault": ""}
    context |= {"searching": None, "ended": False, "listed": None, "letters": None, "places": []}
    if led_here(request) or not (text or header):
        return console.page(request, "find.html", **context, texts=None, led=bool(text or header))
    try:
        wanted = Wanted.of(console.settings, text, header)
    except OptionError as error:
        return console.page(request, "find.html", 400, **context | {"fault": str(error)}, texts=None)
    if console.options.hide_payloads and wanted.origin is None:
        fault = "payloads are hidden here, so that a record is found by the id of its source record alone"
        return console.page(request, "find.html", **context | {"fault": fault}, texts=_texts(console, text))
    letters = _chosen(console, wanted)
    known = _listed(console, letters)
    searching = console.searches.begin(wanted, limit, dead_letters=known is None)
    ended = searching.ended.wait(_SOON_S)  # it may end while the rest is asked for: the page then asks again
    if known is not None:
        known = _listed(console, letters)  # asked after the search, because the record may have died meanwhile
    context |= {"searching": searching, "ended": ended, "listed": known, "letters": letters}
    if ended and searching.found is not None:
        context["places"] = places(searching.found.found, known)
    return console.page(request, "find.html", **context, texts=_texts(console, text))


def places(found: tuple[Found, ...], known: Listed | None) -> list[Found]:
    """Return where a search has found records, without those whose dead letters the index has."""
    letters = set() if known is None else {row.source_id for row in known.rows}
    return [
        each
        for each in found
        if each.state is not State.UNKNOWN
        and not (each.state in {State.FINISHED, State.DONE} and each.message_id in letters)
    ]


def _chosen(console: Console, wanted: Wanted) -> Chosen:
    name = "header" if wanted.header else "key" if wanted.origin is None else "id"
    text = f"{wanted.header}={wanted.text}" if wanted.header else wanted.text
    return chosen(QueryParams([(name, text)]), hide_payloads=console.options.hide_payloads)


def _listed(console: Console, letters: Chosen) -> Listed | None:
    """Return the newest dead letters of a record; ``None`` if the index cannot tell."""
    if letters.faults:
        return None
    try:
        can = console.letters.ask(("can", letters.key), lambda index: index.can_select(letters.selection))
        return listed(console.letters, letters, 0, _SHOWN, oldest=False) if can else None
    except LIBRARY_ERRORS:
        return None


def _texts(console: Console, text: str) -> tuple[Chosen, int] | None:
    """Return the selection of the dead letters that have a text in their failure, and how many there are."""
    if not text:
        return None
    wanted = chosen(QueryParams({"where": _condition(text)}), hide_payloads=console.options.hide_payloads)
    try:
        return wanted, 0 if wanted.faults else listed(console.letters, wanted, 0, 1, oldest=False).total
    except LIBRARY_ERRORS:
        return None


def _condition(text: str) -> str:
    like = quoted("%" + re.sub(r"([\\%_])", r"\\\1", text.lower()) + "%")
    return f"lower(message) like {like} or lower(exception) like {like} or reason = {quoted(text)}"
