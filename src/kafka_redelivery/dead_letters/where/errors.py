"""The error of an expression that cannot be understood."""

from __future__ import annotations

from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.errors import TopologyError
from kafka_redelivery.topology.printable import printable

_SHOWN = 100
"""Characters of the expression's line that an error shows."""


class ExpressionError(TopologyError):
    """An expression of ``--where`` cannot be used: what is wrong in it, where, and what to write instead."""

    exit_code = exit_codes.USAGE

    def __init__(self, text: str, start: int, end: int, problem: str, fix: str) -> None:
        """Describe a fault.

        Args:
            text: the whole expression.
            start: the index of the first character that is wrong.
            end: the index after the last one.
            problem: what is wrong there.
            fix: what to write instead.
        """
        line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", start)
        line = text[line_start : len(text) if line_end < 0 else line_end]
        column = start - line_start
        first = max(0, column - _SHOWN * 2 // 3)
        shown = "".join(char if char.isprintable() else " " for char in line[first : first + _SHOWN])
        carets = "^" * max(1, min(end, line_start + first + len(shown)) - start)
        place = f"line {text.count(chr(10), 0, start) + 1}, " if "\n" in text else ""
        where = f"--where, {place}character {column + 1}"
        super().__init__(
            f"{where}: {printable(problem)}; {printable(fix)}\n  {shown}\n  {' ' * (column - first)}{carets}"
        )
        self.start = start
        self.problem = problem
        self.fix = fix
