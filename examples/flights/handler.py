"""The handler of the demo, named in redelivery.yaml: computes the seat-miles of a flight."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from kafka_redelivery import Context, Record, Reject
from kafka_redelivery.serdes.build import SerdeSettings, build_codec
from kafka_redelivery.serdes.errors import DecodeError

_log = logging.getLogger("flights")

_PLANE_SCHEMA: Final = Path(__file__).parent / "schemas" / "plane.avsc"
_POLL_S: Final = 0.2
_PAUSE_S: Final = 5.0
_TIMEOUT_S: Final = 30.0
_BOOK_TIMEOUT_S: Final = 5.0


class UnknownPlaneError(Exception):
    """The plane is not known yet. Any exception of a handler makes the worker redeliver the record."""

    def __init__(self, tailnum: str) -> None:
        super().__init__(f"no plane {tailnum}")
        self.tailnum = tailnum


class BookAwayError(Exception):
    """The book of flights is away. ``redelivery.yaml`` lists it as ``unavailable``: no attempt is counted."""


def handle(record: Record, context: Context, seats_of: Callable[[str], int | None]) -> None:
    """Handle one flight.

    Args:
        record: the flight.
        context: takes the seat-miles; they are written only if this function returns.
        seats_of: how many seats a plane has, ``None`` if the plane is not known.

    Raises:
        Reject: the flight has no tail number; no later attempt will find one.
        UnknownPlaneError: its plane is not known yet.
    """
    flight = record.value
    tailnum = flight["tailnum"]
    if tailnum is None:
        raise Reject("the flight has no tail number")
    if flight["dep_time"] is None:
        return  # cancelled: no seat-miles
    seats = seats_of(tailnum)
    if seats is None:
        raise UnknownPlaneError(tailnum)
    value = {name: flight[name] for name in _REPEATED}
    value |= {"message_id": record.message_id, "seats": seats, "seat_miles": seats * flight["distance"]}
    context.send("seat_miles", value, key=tailnum)


_REPEATED: Final = ("year", "month", "day", "carrier", "flight", "origin", "dest", "tailnum", "distance")


class SeatMiles:
    """The configured callable. The worker enters it at its start, calls it for each record, and exits it at its end."""

    def __init__(self) -> None:
        self._planes = PlanesTable(os.environ.get("FLIGHTS_BROKER", "localhost:9092"))
        address = os.environ.get("FLIGHTS_BOOK")
        self._book = None if address is None else BookOfFlights(address)

    def __enter__(self) -> Self:
        self._planes.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._planes.stop()
        if self._book is not None:
            self._book.close()

    def __call__(self, record: Record, context: Context) -> None:
        """Handle one flight with the planes known now."""
        if self._book is not None:
            self._book.look_up(record.value)
        handle(record, context, self._planes.seats_of)


class BookOfFlights:
    """A service that knows all flights. Each thread asks it over a connection of its own, which stays open."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._local = threading.local()
        self._connections: list[HTTPConnection] = []

    def look_up(self, flight: Mapping[str, Any]) -> None:
        """Look a flight up.

        Raises:
            BookAwayError: the service is away.
        """
        connection: HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = HTTPConnection(self._address, timeout=_BOOK_TIMEOUT_S)
            self._connections.append(connection)
        try:
            connection.request("GET", f"/{flight['carrier']}/{flight['flight']}")
            answer = connection.getresponse()
            answer.read()
        except (OSError, HTTPException) as error:
            connection.close()  # the next call opens it again
            raise BookAwayError(f"{type(error).__name__}: {error}") from error
        if answer.status != HTTPStatus.OK:
            raise BookAwayError(f"the book of flights answers {answer.status}")

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.close()


class PlanesTable:
    """The topic ``planes`` as a table that grows while flights are handled."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._seats: dict[str, int] = {}
        self._stopping = threading.Event()
        self._codec = build_codec(SerdeSettings(format="avro", schemas={2: _PLANE_SCHEMA}))
        self._consumer: Consumer
        self._thread: threading.Thread

    def seats_of(self, tailnum: str) -> int | None:
        """How many seats a plane has, ``None`` if it is not known."""
        return self._seats.get(tailnum)  # a single dict operation needs no lock

    def start(self) -> None:
        """Read all existing planes, and continue in the background.

        Handling starts when this returns. Otherwise a restarted worker would retry flights whose planes exist.

        Raises:
            LookupError: there is no topic ``planes``.
        """
        self._consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "seat-miles-planes",  # required by the client, never joined: each worker reads all planes
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 100,  # fast start: an empty response marks the end of a partition
            },
            logger=_log,
        )
        partitions = self._consumer.list_topics("planes", timeout=_TIMEOUT_S).topics["planes"].partitions
        if not partitions:
            raise LookupError("there is no topic planes; create it first")
        self._consumer.assign([TopicPartition("planes", number, OFFSET_BEGINNING) for number in partitions])
        unread = set(partitions)
        while unread:
            unread -= self._read()
        self._thread = threading.Thread(target=self._follow, name="planes", daemon=True)
        self._thread.start()
        _log.info("%d planes known", len(self._seats))

    def stop(self) -> None:
        """Stop reading."""
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                self._read()
            except Exception:  # noqa: BLE001 - without this thread the flights would fail, which are not the cause
                _log.exception("planes: reading goes on in %g s", _PAUSE_S)
                self._stopping.wait(_PAUSE_S)

    def _read(self) -> set[int]:
        """Read available records. Returns the partitions that have been read to their end."""
        first = self._consumer.poll(_POLL_S)
        ended: set[int] = set()
        for message in [] if first is None else [first, *self._consumer.consume(1000, 0)]:
            error = message.error()
            if error is None:
                self._learn(message.value())
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name
                ended.add(message.partition() or 0)
            else:
                _log.warning("planes: %s", error.str())
        return ended

    def _learn(self, value: bytes | None) -> None:
        try:
            plane: dict[str, Any] = self._codec.decode(value)
        except DecodeError as error:
            _log.warning("a plane is skipped: %s", error)
        else:
            self._seats[plane["tailnum"]] = plane["seats"]
