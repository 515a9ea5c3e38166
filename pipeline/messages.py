"""Messages between a Python worker and its handler's process.

A connection's own way of receiving takes a hundred thousand records a second, in small pieces that are copied twice. So
what is bulky, which is what pickles as a buffer, follows a message as it is, and is read into its place.
"""

from __future__ import annotations

import os
import pickle
from multiprocessing.connection import Connection
from typing import Any, Final

_OUT_OF_BAND: Final = 5
"""The first protocol of pickle that leaves buffers out."""


def send(pipe: Connection, message: object) -> None:
    """Send what can be pickled.

    Raises:
        OSError: nobody is at the other end.
    """
    bodies: list[pickle.PickleBuffer] = []
    head = pickle.dumps(message, _OUT_OF_BAND, buffer_callback=bodies.append)
    parts = [body.raw() for body in bodies]
    pipe.send((head, [part.nbytes for part in parts]))
    for part in parts:
        left = part
        while left.nbytes:
            left = left[os.write(pipe.fileno(), left) :]


def receive(pipe: Connection) -> Any:  # noqa: ANN401 - whatever was sent
    """What the other end has sent.

    Raises:
        EOFError, OSError: nobody is there any more.
    """
    head, sizes = pipe.recv()
    return pickle.loads(head, buffers=[_read(pipe.fileno(), size) for size in sizes])  # noqa: S301 - of our own process


def _read(descriptor: int, size: int) -> bytearray:
    body = bytearray(size)
    left = memoryview(body)
    while left.nbytes:
        number = os.readv(descriptor, [left])
        if not number:
            raise EOFError
        left = left[number:]
    return body
