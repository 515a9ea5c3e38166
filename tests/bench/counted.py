"""The command line with Kafka clients that count their requests, as librdkafka's statistics have them.

``python -m tests.bench.counted FILE worker --config ...`` writes the counts to the file about once a second.
"""

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka_redelivery.transport import opening

_INTERVAL_MS = 5_000
_WRITE_S = 0.5


class Counting:
    """The requests and bytes of all clients of this process so far."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._clients: dict[str, Mapping[str, int]] = {}

    def install(self) -> None:
        """Let every client that is opened from now on report."""
        plain = opening._open

        def counted(kind: Any, config: Mapping[str, Any], *others: Any) -> Any:  # noqa: ANN401 - as of the product
            counting: dict[str, Any] = {"statistics.interval.ms": _INTERVAL_MS, "stats_cb": self._take}
            return plain(kind, {**config, **counting}, *others)

        opening._open = counted  # type: ignore[assignment]
        threading.Thread(target=self._write, name="counts", daemon=True).start()

    def _take(self, text: str) -> None:
        statistics = json.loads(text)
        counts: Counter[str] = Counter(bytes=statistics["rx_bytes"] + statistics["tx_bytes"])
        for broker in statistics["brokers"].values():
            counts.update({name: number for name, number in broker["req"].items() if number})
        with self._lock:
            self._clients[statistics["name"]] = counts

    def _write(self) -> None:
        while True:
            time.sleep(_WRITE_S)
            with self._lock:
                total: Counter[str] = Counter()
                for counts in self._clients.values():
                    total.update(counts)
            part = self._file.with_suffix(".part")
            part.write_text(json.dumps(total | Counter(clients=len(self._clients))), encoding="utf-8")
            part.rename(self._file)


def counts_in(file: Path) -> Counter[str]:
    """Return the counts that a process has written; empty before the first."""
    return Counter(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else Counter()


if __name__ == "__main__":
    Counting(Path(sys.argv[1])).install()

    from kafka_redelivery.cli.main import app

    app(sys.argv[2:], standalone_mode=False)
