"""The search field: an id, a job, a fingerprint, or a text of failures."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.requests import go_to
from kafka_redelivery.topology.policy.lineage import parse_message_id

_FINGERPRINT: Final = re.compile("[0-9a-f]{16}")
_JOB: Final = re.compile("[0-9a-f]{10}")


async def find(console: Console, request: Request) -> Response:
    """Lead to what a text means."""
    text = request.query_params.get("q", "").strip()[:1000]
    if not text:
        return go_to("/letters")
    if _FINGERPRINT.fullmatch(text):
        return go_to(f"/letters?{urlencode({'fingerprint': text})}")
    if _JOB.fullmatch(text) and console.jobs.value is not None and text in console.jobs.value.jobs:
        return go_to(f"/jobs/{text}")
    try:
        topic, _, _ = parse_message_id(text)
    except ValueError:
        pass
    else:
        sources = {each.topic for each in console.settings.sources}
        return go_to(f"/letters?{urlencode({'id': text})}" if topic in sources else f"/letters/{quote(text)}")
    return go_to(f"/letters?{urlencode({'where': _condition(text, payloads=console.letters.has_values)})}")


def _condition(text: str, *, payloads: bool) -> str:
    """Return a condition for letters that have a text in their failure, or as their key."""
    exact = text.replace("'", "''")
    like = re.sub(r"([\\%_])", r"\\\1", text.lower()).replace("'", "''")
    found = f"lower(message) like '%{like}%' or lower(exception) like '%{like}%' or reason = '{exact}'"
    return f"{found} or key = '{exact}'" if payloads else found
