"""What a vectorised handler says of its rows is understood as it was meant, or refused."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from consumers.handler import as_handler
from pipeline.batch_context import HEADERS, BatchContext


def context() -> BatchContext:
    """Of three rows."""
    return BatchContext(3, as_handler(lambda batch, context: None), None)  # noqa: ARG005 - a handler's signature


@pytest.mark.parametrize(
    "mask",
    [
        pa.array([False, None, True]),
        [False, False, True],
        np.array([False, False, True], dtype=object),
        np.array([False, None, True], dtype=object),
        [2],
        np.array([2], dtype=object),
    ],
)
def test_a_mask_is_a_mask_whatever_it_is_made_of(mask: Any) -> None:  # noqa: ANN401 - arrays of several libraries
    """Also one of Python's own objects, in which a missing value is no failure."""
    found = context()

    found.fail(mask, ValueError("no"))

    assert list(found.failures) == [2]


@pytest.mark.parametrize("rows", [[0.0, 0.0, 1.0], ["2"], [True, False]])
def test_what_is_neither_a_mask_nor_numbers_is_refused(rows: list[object]) -> None:
    """Before it fails the wrong rows."""
    with pytest.raises((TypeError, ValueError)):
        context().fail(rows, ValueError("no"))


def test_nothing_fails_with_an_empty_list() -> None:
    """Neither as a list nor as what NumPy takes for numbers."""
    found = context()

    found.fail([], ValueError("no"))
    found.fail(np.array([]), ValueError("no"))

    assert not found.failures


@pytest.mark.parametrize("pair", [None, {"key": None, "value": b"v"}])
def test_headers_without_a_name_are_the_handlers_fault(pair: object) -> None:
    """Kafka has none, and the client would refuse them when it is too late to tell whose they are."""
    headers = pa.array([[{"key": "k", "value": None}], None, [pair]], HEADERS)

    with pytest.raises(TypeError, match="has no name"):
        context().send("out", [b"a", b"b", b"c"], headers=headers)
