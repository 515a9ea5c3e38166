"""Messages between a Python worker and the handler's process."""

import pickle
import threading
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import pyarrow as pa
import pytest

from kafka_redelivery.consumers.handlers.child import receive, send
from kafka_redelivery.pipeline.handler.items import Emitted
from kafka_redelivery.pipeline.handler.rows import HEADERS, SCHEMA, Rows
from kafka_redelivery.transport.protocols import Partition

COUNT = 3_000
VALUE = b"v" * 300


@pytest.fixture
def pipe() -> Iterator[tuple[Connection, Connection]]:
    """Both ends."""
    one, other = Pipe()
    with one, other:
        yield one, other


def records() -> Rows:
    """More than a pipe holds."""
    columns = [
        pa.array([b"%d" % number for number in range(COUNT)], pa.binary()),
        pa.array([VALUE] * COUNT, pa.binary()),
        pa.nulls(COUNT, HEADERS),
        pa.array(["t"] * COUNT),
        pa.array([0] * COUNT, pa.int32()),
        pa.array(range(COUNT), pa.int64()),
        pa.array([1] * COUNT, pa.int64()),
    ]
    return Rows(Partition("t", 0), pa.RecordBatch.from_arrays(columns, schema=SCHEMA))


def test_records_and_outputs_arrive_as_they_were(pipe: tuple[Connection, Connection]) -> None:
    """Records there and outputs back, both larger than what a pipe holds, are the same at the other end."""
    here, there = pipe
    sent = records()
    answer = Emitted("out", None, sent.batch)

    def child() -> None:
        rows, singly = receive(there)
        send(there, (singly, Emitted("out", None, rows.batch)))

    thread = threading.Thread(target=child)
    thread.start()
    send(here, (sent, True))
    assert receive(here) == (True, answer)
    thread.join()


def test_a_slice_travels_alone(pipe: tuple[Connection, Connection]) -> None:
    """One record of a large batch is sent without the others."""
    here, there = pipe
    rows = records()
    one = rows[7:8]
    emitted = Emitted("out", 3, one.batch)
    for each in (one, emitted):
        assert len(pickle.dumps(each)) < len(pickle.dumps(rows)) / 10
    send(here, (one, emitted))
    arrived, output = receive(there)
    assert (arrived.offsets(), output) == ([7], emitted)


def test_the_end_of_the_other_side_is_told(pipe: tuple[Connection, Connection]) -> None:
    """Who waits for a message whose sender is gone is told so."""
    here, there = pipe
    there.close()
    with pytest.raises(EOFError):
        receive(here)
