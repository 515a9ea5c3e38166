"""Everything about one dead letter: what is shown of it, and what of it is hidden."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.decoding import Decoded, LetterCodecs
from kafka_redelivery.dead_letters.foreign.letter import header_text
from kafka_redelivery.dead_letters.foreign.systems import is_claimed
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.letter import Letter, LetterState, Standing
from kafka_redelivery.dead_letters.letter_jobs import LetterJobs, predecessor
from kafka_redelivery.dead_letters.pointers import pointer_of
from kafka_redelivery.dead_letters.reading import StoredLetter
from kafka_redelivery.dead_letters.source import LetterSource
from kafka_redelivery.dead_letters.story import Event, story
from kafka_redelivery.serdes.plain import plain
from kafka_redelivery.topology.wire.headers import FAILURE_CAUSE, read_failure_cause, trace_id_of


class Shown(NamedTuple):
    """What is shown of a dead letter."""

    found: StoredLetter
    key: Decoded
    value: Decoded
    history: Sequence[Standing]
    """Where it stood after each job."""

    story: Sequence[Event]
    command: str
    """The command that sends it again."""

    @property
    def hides_key(self) -> bool:
        """Whether only the class of the exception is shown, and no key: ``failureDetails: class-only``."""
        return self.found.letter.class_only

    @property
    def frames(self) -> Sequence[str]:
        """The last frames of the user's code, the innermost last; with ``class-only`` the place alone."""
        letter = self.found.letter
        if letter.class_only:
            return (letter.place,) if letter.place else ()
        return letter.frames or ()


def shown_of(
    settings: LetterSource,
    decodes: LetterCodecs,
    found: StoredLetter,
    ledger: Ledger | None = None,
    history: Sequence[Standing] = (),
    *,
    with_story: bool = False,
) -> Shown:
    """Return what is shown of a letter.

    Args:
        settings: the configuration.
        decodes: its codecs.
        found: the letter.
        ledger: that of its group, if that is not the one of the settings, and for its story.
        history: where it stood after each job.
        with_story: whether its story is read, too, which takes more requests.

    Raises:
        TransportError: Kafka does not answer or denies access.
    """
    letter, standing, message = found
    key, value = decodes.decoded(letter, message.value())
    again = _sending_again(standing, letter)
    if ledger is None:
        return Shown(found, key, value, history, (), " ".join(("redelivery dlq", *again)) + settings.options())
    told = story(settings, LetterJobs.of(ledger, letter), found) if with_story else ()
    return Shown(found, key, value, history, told, ledger.command(*again))


def previous(ledger: Ledger, letter: Letter) -> str:
    """Return the id of the letter that this one was before it was sent again and died again.

    Raises:
        RedriveError: it was none, or its job is not known.
    """
    found = predecessor(ledger, letter)
    if found is None:
        raise RedriveError(f"{letter.id} was not sent again before it died; name another letter")
    return found


def shown_document(shown: Shown) -> dict[str, Any]:
    """Return a letter with its decoded key and value, its headers and what jobs did with it."""
    value = shown.found.message.value()
    document = shown.found.document()
    if shown.hides_key:
        document |= {"key": None, "message": ""}
    else:
        document |= _side("key", shown.key)
    letter = shown.found.letter
    return document | {
        "frames": list(shown.frames),
        "traceId": trace_id_of(letter.headers) or None,
        **({} if letter.system is None else {"notes": list(_notes(letter))}),
        "headers": headers_document(shown),
        **_side("value", shown.value),
        "valueBytes": None if value is None else len(value),
        "command": shown.command,
        "history": [{"job": step.job, "state": step.state, "reason": step.reason or None} for step in shown.history],
        "story": [
            {
                "atMs": each.at_ms,
                "what": each.what,
                "text": each.text,
                "record": each.record or None,
                "job": each.job or None,
            }
            for each in shown.story
        ],
    }


def _notes(letter: Letter) -> Iterator[str]:
    """Yield what another system has left out, or a person has to choose before the letter can be sent."""
    if is_claimed(letter.system or ""):
        yield f"{letter.system} could have written it: say which one with --system, before the command"
    elif not letter.system:
        yield "system not recognised; use --map or --to"
    elif pointer_of(letter) is None:
        if letter.no_content:
            yield "it has no content, and its headers do not say where its record is"
    elif letter.no_content:
        yield f"it has no content: redrive reads that from {letter.source_id}, if the record is still there"
    else:
        yield f"{letter.system} has left the record's headers out: --restore-headers takes them from {letter.source_id}"


def _side(name: str, decoded: Decoded) -> dict[str, Any]:
    return {name: plain(decoded.value), f"{name}Format": decoded.format, f"{name}Problem": decoded.problem or None}


def headers_document(shown: Shown) -> dict[str, Any]:
    """Return the headers by name. Of a name that is given twice, the last."""
    headers = shown.found.letter.headers
    system = shown.found.letter.system or ""
    return {name: _header(name, headers[name], system, class_only=shown.hides_key) for name in sorted(headers)}


def content_document(shown: Shown) -> dict[str, Any]:
    """Return key, headers and value as plain data, to be compared with those of another letter."""
    hidden = {} if shown.hides_key else {"key": plain(shown.key.value)}
    return hidden | {"headers": headers_document(shown), "value": plain(shown.value.value)}


def _header(name: str, value: bytes | None, system: str, *, class_only: bool) -> str | dict[str, str] | None:
    if class_only and name == FAILURE_CAUSE:
        return json.dumps(_cause_without_text(value))
    text = header_text(name, value, system)
    if value is not None and text is not None and "\ufffd" in text and "\ufffd".encode() not in value:
        return plain(value)  # type: ignore[no-any-return] # bytes become base64
    return text


def _cause_without_text(value: bytes | None) -> dict[str, Any]:
    try:
        cause = json.loads(value or b"{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(cause, dict):
        return {}
    place = read_failure_cause(value).place
    shown = {name: cause.get(name) for name in ("reason", "exception")}
    return shown if place is None else shown | {"frames": [place] if place else []}


def _sending_again(standing: Standing, letter: Letter) -> tuple[str, str]:
    """Return the command and its arguments that send a letter again, or go on with the job that has it.

    What a person has to choose is in capitals.
    """
    if standing.state is LetterState.IN_JOB:
        return "resume", standing.job or ""
    again = "" if standing.may_be_sent(again=False) else " --again"
    command = "--system NAME redrive" if is_claimed(letter.system or "") else "redrive"
    return command, f"--id {letter.id}{again}" + (" --to TOPIC" if letter.system == "" else "")
