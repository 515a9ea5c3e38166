"""Makes many expressions of `--where` from some: parts of one take the place of parts of the same type in another.

To write, parse and type each of a million texts would take longer than both engines need for them.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator

from kafka_redelivery.dead_letters.where.columns import Kind
from kafka_redelivery.dead_letters.where.expression import Expression, JsonPath, Like, Op, Operation, columns, nodes
from kafka_redelivery.pipeline.archive.where import LACKING

_ENDS = 0.25
"""How often a part is replaced as a whole, instead of one of its own parts."""


def crossed(expressions: Iterable[Expression], seed: int) -> Iterator[Expression]:
    """Yield conditions without end, as they come from a generator with this seed.

    They have no JSON paths, which DuckDB evaluates in both engines, and no columns that the archive lacks.
    """
    return iter(_Crossing(expressions, seed).next, None)


class _Crossing:
    def __init__(self, expressions: Iterable[Expression], seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - nothing secret
        self._roots: list[Expression] = []
        self._parts: dict[Kind, list[Expression]] = defaultdict(list)
        for each in expressions:
            if not _is_plain(each):
                continue
            self._roots.append(each)
            for part in nodes(each):
                self._parts[part.kind].append(part)

    def next(self) -> Expression:
        """Return another condition."""
        return self._changed(self._random.choice(self._roots), whole=False)

    def _changed(self, node: Expression, *, whole: bool = True) -> Expression:
        if not isinstance(node, Operation | Like) or (whole and self._random.random() < _ENDS):
            return self._random.choice(self._parts[node.kind])
        if isinstance(node, Like):
            return Like(self._changed(node.of), node.pattern)
        operands = list(node.operands)
        number = 0 if node.op is Op.IN else self._random.randrange(len(operands))
        operands[number] = self._changed(operands[number])
        return Operation(node.op, tuple(operands), node.kind)


def _is_plain(expression: Expression) -> bool:
    return not any(isinstance(node, JsonPath) for node in nodes(expression)) and not columns(expression) & LACKING
