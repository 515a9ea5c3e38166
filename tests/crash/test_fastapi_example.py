"""The FastAPI example is killed at random under load: nothing is lost, no output is doubled, its books are exact."""

import json
import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from examples import fastapi_service
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.admin.preflight import make_topics
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.scenarios.cluster import Cluster, Sent
from tests.scenarios.running import Process
from tests.scenarios.scraping import free_port
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.crash, pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(900)]

FOLDER: Final = Path(fastapi_service.__file__).parent
KILLS: Final = 8
SENT_AT_ONCE: Final = 5
"""Of each topic, ten times a second at most."""

SETTLED_S: Final = 300.0
"""The database needs a while for each of some thousand transactions."""

Value = dict[str, Any]

VALUES: Final[dict[str, Callable[[int], Value]]] = {
    "payments": lambda n: {"number": n, "cents": 0 if n % 20 == 0 else 5},
    "parcels": lambda n: {"number": n, "packed": n % 10 != 0},
    "clicks": lambda n: {"number": n, "article": "" if n % 25 == 0 else "shoes"},
    "orders": lambda n: {"number": n, "cents": 5},
}
"""The records of each source."""


class Shop:
    """The service, in a process that can be killed and started again."""

    def __init__(self, servers: str, folder: Path) -> None:
        self._folder = folder
        self.database = folder / "shop.db"
        self.environment = {
            **os.environ,
            "REDELIVERY_KAFKA__BOOTSTRAP_SERVERS": servers,
            "SHOP_DATABASE": f"sqlite:///{self.database}",
        }
        self.process = self._start()

    def _start(self) -> Process:
        self._port = free_port()
        command = ["-m", "uvicorn", "--app-dir", str(FOLDER), "service:api", "--port", str(self._port)]
        return Process("shop", command, self.environment, self._folder / "shop.log")

    def await_ready(self) -> None:
        """Wait until it is a member of its group."""
        until(self._ready, "the service is ready")

    def _ready(self) -> bool:
        assert self.process.running, self.process.log[-3000:]
        try:
            with urlopen(f"http://127.0.0.1:{self._port}/redelivery/readyz", timeout=5) as answer:
                return int(answer.status) == 200
        except URLError:
            return False

    def restart(self) -> None:
        """Kill it with SIGKILL, and start it again."""
        self.process.kill()
        self.process = self._start()

    def booked(self) -> Counter[int]:
        """How often each order is in its books."""
        with sqlite3.connect(self.database) as connection:
            return Counter(number for (number,) in connection.execute("SELECT number FROM bookings"))


@contextmanager
def load(cluster: Cluster) -> Iterator[Callable[[], int]]:
    """Send records of each source while the block runs; yields a function that ends it and returns how many of each."""
    ended = threading.Event()
    sent = 0

    def send() -> None:
        nonlocal sent
        while not ended.wait(0.1):
            for topic, value in VALUES.items():
                records = [
                    Sent(json.dumps(value(n)).encode(), b"%d" % (n % 50)) for n in range(sent, sent + SENT_AT_ONCE)
                ]
                cluster.produce(topic, records)
            sent += SENT_AT_ONCE

    def end() -> int:
        ended.set()
        thread.join()
        return sent

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield end
    finally:
        end()


def test_killed_at_random_under_load(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """One process with four handlers and a scheduler."""
    seed = time.time_ns() % 1_000_000
    record_property("seed", seed)
    print("seed", seed)  # noqa: T201
    random = Random(seed)  # noqa: S311 - when to kill
    with EmbeddedKafka() as kafka:
        cluster = Cluster(kafka.bootstrap_servers)
        environment = {"REDELIVERY_KAFKA__BOOTSTRAP_SERVERS": kafka.bootstrap_servers}
        settings = load_settings((FOLDER / "redelivery.yaml").read_text(), environment=environment)
        cluster.create(*VALUES, *(each.topic for each in settings.outputs), partitions=3)
        make_topics(settings, time.time_ns() // 1_000_000)
        shop = Shop(kafka.bootstrap_servers, tmp_path)
        try:
            with load(cluster) as end:
                for _ in range(KILLS):
                    shop.await_ready()
                    time.sleep(random.uniform(0.0, 2.0))
                    shop.restart()
                shop.await_ready()
                total = end()
            sources, tiers = list(VALUES), [each for each in cluster.topics() if each.startswith("shop.retry.")]
            read = [*sources, *(f"shop.ready.{topic}" for topic in sources)]
            until(
                lambda: not cluster.unfinished("shop", *read) and not cluster.unfinished("shop.scheduler", *tiers),
                "all records are handled",
                within_s=SETTLED_S,
            )
            shop.process.terminate()
            shop.process.wait(60)
            verify(cluster, shop, total)
        finally:
            shop.process.end()
            print(shop.process.log[-3000:])  # noqa: T201


def verify(cluster: Cluster, shop: Shop, total: int) -> None:
    """Compare what there is with what was sent."""
    assert total > KILLS * SENT_AT_ONCE
    everything = set(range(total))
    unpaid = {n for n in everything if not VALUES["payments"](n)["cents"]}
    empty = {n for n in everything if not VALUES["clicks"](n)["article"]}
    expected = {
        "receipts": everything - unpaid,
        "DLQ.payments": unpaid,
        "labels": everything,
        "DLQ.parcels": set[int](),
        "views": everything - empty,
        "DLQ.clicks": empty,
        "DLQ.orders": set[int](),
    }
    for topic, numbers in expected.items():
        found = Counter(json.loads(record.value or b"")["number"] for record in cluster.read_written(topic))
        lost, doubled = numbers - found.keys(), {n for n, times in found.items() if times > 1}
        assert (lost, doubled, found.keys() - numbers) == (set(), set(), set()), topic
    assert shop.booked() == Counter(everything)
