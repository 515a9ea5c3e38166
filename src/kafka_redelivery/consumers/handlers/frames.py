"""Where an exception was raised: the last frames of the user's own code, and all frames for the log.

A record may fail at each of its attempts, and always at the same places. So a traceback is walked for its code objects
and positions alone, and what they mean is remembered. No frame object is kept, because it would keep the record and
everything else that its function knew.
"""

from __future__ import annotations

import sysconfig
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Final, NamedTuple

from kafka_redelivery.topology.policy.decision import Raised

MAX_FRAMES: Final = 3
"""How many of the user's frames a dead letter names at most."""

_MAX_CAUSES: Final = 7
"""How many exceptions that led to one are kept."""

_MAX_TEXT: Final = 2000
"""How many characters of their texts."""

_HEAD, _TAIL = 20, 40
"""How many frames of an exception are kept: the first and the last ones. An endless recursion has a thousand."""

_SITE: Final = frozenset({"site-packages", "dist-packages"})
_OURS: Final = f"{Path(__file__).resolve().parents[2]}/"
_STANDARD: Final = tuple(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib"))


class Traced(NamedTuple):
    """What a traceback says."""

    users: tuple[str, ...]
    """``module.function:line`` of the last :data:`MAX_FRAMES` frames of the user's code, the innermost last."""

    frames: tuple[tuple[str, int, str], ...]
    """File, line and function of all frames; of very many the first and the last ones."""

    codes: tuple[CodeType, ...]
    """Kept, so that no other code object gets the id of one of these."""


_known: dict[tuple[str | int, ...], Traced] = {}
"""By package, and by id of the code and position in it of each frame."""

_MAX_KNOWN: Final = 1024


def traced(error: BaseException, package: str = "") -> Traced:
    """Return the frames of a traceback.

    A frame is the user's if its file is neither of this package nor of the standard library nor in `site-packages`, or
    if its module is of the package of the handler, which may be installed there. If none is, the innermost counts.

    Args:
        error: the exception.
        package: the first part of the name of the handler's module; empty = not known.
    """
    places: list[str | int] = [package]
    step = error.__traceback__
    while step is not None:
        places += id(step.tb_frame.f_code), step.tb_lasti
        step = step.tb_next
    key = tuple(places)
    found = _known.get(key)
    if found is None:
        found = _read(error, package)
        if len(found.codes) <= _HEAD + _TAIL:  # the depth of a recursion may vary
            if len(_known) >= _MAX_KNOWN:
                _known.clear()
            _known[key] = found
    return found


def causes_of(error: BaseException) -> tuple[Raised, ...]:
    """Return the exceptions that led to this one, as Python shows them, the last first."""
    if error.__context__ is None and error.__cause__ is None:
        return ()
    found = _before(error)
    causes: list[Raised] = []
    seen = {id(error)}
    while found is not None and id(found) not in seen and len(causes) < _MAX_CAUSES:
        seen.add(id(found))
        causes.append(Raised(type(found).__qualname__, text_of(found)[:_MAX_TEXT], traced(found).frames))
        found = _before(found)
    return tuple(causes)


def text_of(error: BaseException) -> str:
    """Return the text of an exception, even if its ``__str__`` raises."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - a broken exception class must not kill the worker
        return "<no message: its __str__ failed>"


def _before(error: BaseException) -> BaseException | None:
    """Return the exception that led to this one, as Python shows it."""
    if error.__cause__ is not None:
        return error.__cause__
    return None if error.__suppress_context__ else error.__context__


def _read(error: BaseException, package: str) -> Traced:
    steps: list[tuple[FrameType, int]] = []
    step = error.__traceback__
    while step is not None:
        steps.append((step.tb_frame, step.tb_lineno))
        step = step.tb_next
    users = [_named(*each) for each in islice((it for it in reversed(steps) if _is_users(it[0], package)), MAX_FRAMES)]
    if steps and not users:
        users = [_named(*steps[-1])]
    codes = tuple(frame.f_code for frame, _ in steps)
    frames = [(frame.f_code.co_filename, line, frame.f_code.co_qualname) for frame, line in steps]
    return Traced(tuple(reversed(users)), _bounded(frames), codes)


def _bounded(frames: list[tuple[str, int, str]]) -> tuple[tuple[str, int, str], ...]:
    if len(frames) <= _HEAD + _TAIL:
        return tuple(frames)
    return (*frames[:_HEAD], ("...", 0, f"{len(frames) - _HEAD - _TAIL} more frames"), *frames[-_TAIL:])


def _is_users(frame: FrameType, package: str) -> bool:
    if package and f"{frame.f_globals.get('__name__')}.".startswith(f"{package}."):
        return True
    return _is_own(frame.f_code.co_filename)


@lru_cache(maxsize=4096)
def _is_own(file: str) -> bool:
    """Whether a file is the user's own."""
    return not (file.startswith(("<frozen ", _OURS, *_STANDARD)) or _SITE & set(file.split("/")))


def _named(frame: FrameType, line: int) -> str:
    names = frame.f_globals
    module = names.get("__name__")
    if module == "__main__":  # the name under which a worker or a query would import it
        spec = names.get("__spec__")
        module = None if spec is None else spec.name
    code = frame.f_code
    return f"{module or Path(code.co_filename).stem}.{code.co_qualname}:{line}"
