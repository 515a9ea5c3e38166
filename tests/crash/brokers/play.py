"""A group with work on three nodes, of which a test takes one away."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, Final

from tests.crash.brokers.three import Three, despite_errors
from tests.crash.load import SCRIPTS, TRANSACTION_MS, expected, settings
from tests.crash.verdict import judge
from tests.scenarios.cluster import Tail
from tests.scenarios.running import Group, Process, number, script
from tests.scenarios.waiting import until

_PARTITIONS: Final = 4
_WAVE: Final = 20
_PAUSE_S: Final = 0.2
_DELAY_MS: Final = 1000
"""Long enough that retries are pending at any moment, and are released at any moment."""

_LONG_S: Final = 400.0
_AT_ONCE: Final = frozenset({6, 7, 8, 9})
_AT_SECOND: Final = frozenset({2, 3})
"""Last digits of the records that succeed at the first or second attempt. A key has records of one last digit."""

_KEYS: Final = 20
_WITH_OUTPUT: Final = len(_AT_ONCE | _AT_SECOND) / 10
_BACKLOG: Final = 100
"""So few outputs may be missing when more records are sent."""


Record = Callable[[str, object], None]
"""pytest's ``record_property``."""


class Play:
    """Two workers and two schedulers, one of each without a stable name, which have work while a node fails.

    Args:
        group: its names and folder.
        three: the nodes.
        kafka: client settings.
    """

    def __init__(self, group: Group, three: Three, kafka: Mapping[str, Any]) -> None:
        self.group = group
        self.three = three
        self._sent = 0
        self._unacknowledged: set[int] = set()
        self._seen: list[int] = []
        self._kafka = {**kafka, "producer.transaction.timeout.ms": 5 * TRANSACTION_MS}

    def prepare(self) -> None:
        """Create the topics."""
        self.group.prepare(partitions=_PARTITIONS, **settings(_DELAY_MS, kafka=self._kafka))

    def start(self, *settings_of_the_first_worker: str) -> Process:
        """Start the processes; return the worker with the stable name."""
        first = self.group.start("worker", "one", *settings_of_the_first_worker)
        self.group.start("worker", None)
        self.group.start("scheduler", "one")
        self.group.start("scheduler", None)
        return first

    @contextmanager
    def load(self) -> Iterator[None]:
        """Send records as fast as they are handled, and begin once retries are pending and succeed."""
        enough = Event()

        def produce(outputs: Tail) -> None:
            while not enough.wait(_PAUSE_S):
                outputs.read_on()
                self._seen = [int(record.value or b"-1") for record in outputs.records]
                if self._sent * _WITH_OUTPUT - len(self._seen) < _BACKLOG:
                    numbered = enumerate(_scripts(self._sent), start=self._sent)
                    wave = [script(n, do, keys=_KEYS) for n, do in numbered]
                    refused = self.group.cluster.offer(self.group.source, wave)
                    self._unacknowledged.update(self._sent + index for index in refused)
                    self._sent += _WAVE

        with self.group.cluster.follow(self.group.output) as outputs:
            thread = Thread(target=produce, args=(outputs,))
            thread.start()
            try:
                self.goes_on()
                yield
            finally:
                enough.set()
                thread.join()

    def goes_on(self) -> None:
        """Wait until records that are sent from now on are handled, at the first and at the second attempt."""
        after = self._sent + _WAVE

        def handled() -> bool:
            found = {n % 10 for n in self._seen if n >= after}
            return bool(found & _AT_ONCE and found & _AT_SECOND)

        until(handled, "records sent later are handled", within_s=_LONG_S)

    def finish(self, record: Record, name: str, began_s: float) -> None:
        """Wait until nothing is pending, stop all processes, and assert that all promises are kept.

        Args:
            record: takes a row of the table at the end of the test run.
            name: the name of the row.
            began_s: when the test began, by the monotonic clock.
        """
        group = self.group
        self.three.heal()
        until(despite_errors(group.settled), f"nothing is pending in {group.name}", within_s=_LONG_S)
        ended = [process.name for process in group.processes if not process.running]
        assert not ended, f"{ended} ended"
        group.stop()
        written = {number(each) for each in group.cluster.read(group.source)}
        assert set(range(self._sent)) - self._unacknowledged <= written, "Kafka has lost records of the source"
        outputs, dead = (numbers & written for numbers in expected(self._sent))
        verdict = judge(group, outputs=outputs, dead=dead)
        early, disordered = self._early(), self._disordered()
        record("broker", [name, self._sent, verdict.lost, verdict.doubled, early, disordered, _since(began_s)])
        assert (verdict.lost, verdict.doubled, verdict.pending) == (0, 0, 0), verdict.details
        assert (early, disordered) == (0, 0)

    def _early(self) -> int:
        """Return how many second deliveries began sooner than the delay after the first one."""
        first: dict[int, float] = {}
        early = 0
        for call in self.group.deliveries.began():
            first.setdefault(call.n, call.at_s)
            early += call.attempt == 2 and call.at_s < first[call.n] + _DELAY_MS / 1000
        return early

    def _disordered(self) -> int:
        """Return how many outputs of a key stand behind one of a later record.

        Those of the second attempt have to be in order only if their partition stayed with its worker.
        """
        owners: dict[tuple[str, int], set[int]] = defaultdict(set)
        for call in self.group.deliveries.began():
            owners[call.key, call.n % 10].add(call.pid)
        numbers: dict[tuple[str, int], list[int]] = defaultdict(list)
        for record in self.group.cluster.read(self.group.output):
            number = int(record.value or b"-1")
            key = (record.key or b"").decode(), number % 10
            if number % 10 in _AT_ONCE or (number % 10 in _AT_SECOND and len(owners[key]) == 1):
                numbers[key].append(number)
        assert len(numbers) >= 2 * len(_AT_ONCE)
        return sum(_descents(found) for found in numbers.values())


def _scripts(first: int) -> list[Sequence[str]]:
    """Return the scripts of a wave; those that succeed at once are slow, so that work is left when a node goes."""
    return [["sleep 0.02"] if n % 10 in _AT_ONCE else SCRIPTS[n % 10] for n in range(first, first + _WAVE)]


def _descents(numbers: Iterable[int]) -> int:
    found, highest = 0, -1
    for each in numbers:
        found += each < highest
        highest = max(highest, each)
    return found


def _since(began_s: float) -> float:
    return time.monotonic() - began_s
