"""The traceback of an exception without anything that the exception says."""

from __future__ import annotations

from traceback import walk_tb


def classes_and_frames(error: BaseException) -> str:
    """Return class and frames of an exception, and of each that led to it, outermost first.

    The texts of the exceptions and their notes may have personal data. The lines of source code are left out, too.
    """
    lines: list[str] = []
    found: BaseException | None = error
    seen: set[int] = set()
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        lines.append(f"{'caused by ' if lines else ''}{type(found).__qualname__}")
        lines += [
            f'  File "{frame.f_code.co_filename}", line {number}, in {frame.f_code.co_qualname}'
            for frame, number in walk_tb(found.__traceback__)
        ]
        hidden = found.__suppress_context__ or found.__cause__ is not None
        found = found.__cause__ if hidden else found.__context__
    return "\n".join(lines)
