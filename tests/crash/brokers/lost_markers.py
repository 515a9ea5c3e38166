"""Counts transactions that lose their markers (KAFKA-20734) while the brokers are restarted in order.

    python -m tests.crash.brokers.lost_markers --nodes 3 --rounds 20

Producers end transactions all the time, every other one by an abort. Each transaction writes one record to every
partition. If a partition loses the marker of a commit, the abort that follows takes its record away, and if it loses
the marker of an abort, the commit that follows shows its record. So a read-committed reader that finds each transaction
in all partitions or in none, as it ended, shows that none lost a marker. A transaction that stays open shows, too.

One round restarts each node once, by SIGTERM. ``--hasty`` does not wait until all replicas are in sync before it goes
on with the next node, which an operator should never do.
"""

import argparse
import contextlib
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from confluent_kafka import KafkaException, Producer

from tests.crash.brokers.nodes import Nodes
from tests.crash.brokers.three import HEAP_MB, Three
from tests.crash.load import LASTING, RESTARTED
from tests.scenarios.cluster import Cluster
from tests.scenarios.waiting import LONG_S, until

PARTITIONS: Final = 12
_TOPIC: Final = "marked"
_PRODUCERS: Final = 8
_CALL_S: Final = 30.0
_UNDER_WAY: Final = 40
"""Transactions that have to end between two restarts."""


@dataclass(slots=True)
class Ends:
    """How the transactions of a producer ended, by number."""

    committed: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Count:
    """Of ``transactions`` that were ended, how many a reader finds otherwise than they ended, or in part."""

    transactions: int
    missing: int
    surplus: int
    partial: int

    @property
    def wrong(self) -> int:
        """Transactions that lost a marker."""
        return self.missing + self.surplus + self.partial


class Transactions:
    """Ends transactions that write to a topic, on several threads, until it is stopped."""

    def __init__(self, servers: str, topic: str) -> None:
        self._servers = servers
        self.topic = topic
        self._stop = threading.Event()
        self.ends = [Ends() for _ in range(_PRODUCERS)]
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(_PRODUCERS)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def total(self) -> int:
        """Return the number of transactions whose end is known."""
        return sum(len(ends.committed) + len(ends.aborted) for ends in self.ends)

    def _run(self, number: int) -> None:
        ends, turn, producer = self.ends[number], 0, None
        # The last one is a commit, after which no transaction of this producer is open.
        while not self._stop.is_set() or turn % 2:
            turn += 1
            commit = turn % 2 == 0
            try:
                producer = producer or self._open(number)
                producer.begin_transaction()
                for partition in range(PARTITIONS):
                    producer.produce(self.topic, b"%d %d" % (number, turn), partition=partition)
                if commit:
                    _end(producer.commit_transaction)
                    ends.committed.add(turn)
                else:
                    producer.flush(_CALL_S)
                    _end(producer.abort_transaction)
                    ends.aborted.add(turn)
            except KafkaException:
                ends.unknown.add(turn)
                producer = None

    def _open(self, number: int) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "transactional.id": f"{self.topic}-{number}",
                "transaction.timeout.ms": 60_000,
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        _end(producer.init_transactions)
        return producer


def _end(call: Callable[[float], None]) -> None:
    """Call until the answer is known; librdkafka goes on with the same request."""
    while True:
        try:
            return call(_CALL_S)
        except KafkaException as exception:
            if not exception.args[0].retriable():
                raise


def count(cluster: Cluster, transactions: Transactions) -> Count:
    """Compare what a read-committed reader finds with how the transactions ended."""
    ends = transactions.ends
    cluster.wait_for_markers(transactions.topic)
    found: Counter[tuple[int, int]] = Counter()
    for record in cluster.read(transactions.topic):
        number, turn = map(int, (record.value or b"").split())
        found[number, turn] += 1
    wrong: dict[str, int] = defaultdict(int)
    for number, each in enumerate(ends):
        wrong["missing"] += sum(found[number, turn] == 0 for turn in each.committed)
        wrong["surplus"] += sum(found[number, turn] == PARTITIONS for turn in each.aborted)
    wrong["partial"] = sum(times not in {0, PARTITIONS} for times in found.values())
    total = sum(len(each.committed) + len(each.aborted) for each in ends)
    return Count(total, wrong["missing"], wrong["surplus"], wrong["partial"])


@contextlib.contextmanager
def started(folder: Path, nodes: int) -> Iterator[Three]:
    """Start the nodes and create the topic."""
    properties = LASTING | RESTARTED | {"controlled.shutdown.enable": "true"}
    kafka = Nodes(nodes, data_dir=folder, properties=properties, heap_mb=HEAP_MB)
    with kafka:
        kafka.create_topics({_TOPIC: PARTITIONS})
        yield Three(kafka)


def restart_each(three: Three, transactions: Transactions, *, hasty: bool = False) -> None:
    """Restart each node once, in order, while transactions end."""
    for node in three.nodes:
        target = transactions.total() + _UNDER_WAY
        until(lambda wanted=target: transactions.total() >= wanted, "transactions end", within_s=LONG_S)  # type: ignore[misc]
        if hasty:
            three.nodes[node].stop()
            three.nodes[node].start()
        else:
            three.restart(node)


def main() -> None:
    """Run the experiment and print a line for each round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--hasty", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, started(Path(folder), options.nodes) as three:
        cluster, seconds = Cluster(three.kafka.bootstrap_servers), time.monotonic()
        # Ctrl-C ends the rounds, not the count.
        with (
            contextlib.suppress(KeyboardInterrupt),
            Transactions(three.kafka.bootstrap_servers, _TOPIC) as transactions,
        ):
            for done in range(1, options.rounds + 1):
                restart_each(three, transactions, hasty=options.hasty)
                text = f"{done * options.nodes} restarts, {transactions.total()} transactions"
                sys.stdout.write(f"{text}, {time.monotonic() - seconds:.0f} s\n")
                sys.stdout.flush()
        three.heal()
        sys.stdout.write(f"{count(cluster, transactions)}\n")


if __name__ == "__main__":
    main()
