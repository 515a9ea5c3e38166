"""The context of a vectorised handler accepts masks and indexes, and refuses other values."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kafka_redelivery.consumers.handlers.handler import as_handler
from kafka_redelivery.pipeline.handler.rows import HEADERS
from kafka_redelivery.pipeline.handler.vectorized import BatchContext


def context() -> BatchContext:
    """A context of three rows."""
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
def test_masks_of_all_libraries_are_accepted(mask: Any) -> None:  # noqa: ANN401 - arrays of several libraries
    """A missing value in a mask of Python objects is not a failure."""
    found = context()

    found.fail(mask, ValueError("no"))

    assert list(found.failures) == [2]


@pytest.mark.parametrize("rows", [[0.0, 0.0, 1.0], ["2"], [True, False]])
def test_other_values_are_refused(rows: list[object]) -> None:
    """Otherwise the wrong rows could fail."""
    with pytest.raises((TypeError, ValueError)):
        context().fail(rows, ValueError("no"))


def test_an_empty_list_fails_no_row() -> None:
    """This holds for a list and for an empty NumPy array."""
    found = context()

    found.fail([], ValueError("no"))
    found.fail(np.array([]), ValueError("no"))

    assert not found.failures


@pytest.mark.parametrize("pair", [None, {"key": None, "value": b"v"}])
def test_a_header_without_a_name_is_refused(pair: object) -> None:
    """The Kafka client would refuse it later, when the record at fault is unknown."""
    headers = pa.array([[{"key": "k", "value": None}], None, [pair]], HEADERS)

    with pytest.raises(TypeError, match="has no name"):
        context().send("out", [b"a", b"b", b"c"], headers=headers)
