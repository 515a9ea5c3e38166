"""The quick start works as its page says: a late charge succeeds, an impossible one becomes a dead letter."""

import os
import subprocess
import sys
from pathlib import Path

from examples import quickstart
from tests.scenarios.cluster import Cluster
from tests.scenarios.running import COMMAND, Process
from tests.scenarios.scraping import free_port
from tests.scenarios.waiting import until

_FOLDER = Path(quickstart.__file__).parent
_PORT = "8099"


def test_the_quick_start_from_its_page(cluster: Cluster, tmp_path: Path) -> None:
    """Follow the steps of the page in a copy of its folder; the bank starts after an order has failed."""
    free = str(free_port())
    for file in ("bank.py", "handlers.py", "look.py", "orders.py", "redelivery.yaml"):
        (tmp_path / file).write_text((_FOLDER / file).read_text().replace(_PORT, free))
    config = ("--config", str(tmp_path / "redelivery.yaml"))
    environment = os.environ | {"REDELIVERY_KAFKA__BOOTSTRAP_SERVERS": cluster.servers}

    def run(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, timeout=60, env=environment, check=True
        )
        return done.stdout

    def start(name: str, *command: str) -> Process:
        processes.append(Process(name, command, environment, tmp_path / f"{name}.log"))
        return processes[-1]

    processes: list[Process] = []
    cluster.create("orders", "receipts", partitions=3)
    run(*COMMAND, "topology", "apply", *config)
    try:
        start("scheduler", *COMMAND, "scheduler", *config)
        worker = start("worker", *COMMAND, "worker", *config)
        run(str(tmp_path / "orders.py"))
        until(
            lambda: "next delivery in 1000 ms: URLError" in worker.log,
            "the first order has failed",
        )
        start("bank", str(tmp_path / "bank.py"))
        until(lambda: sum(cluster.ends("receipts").values()) > 0, "a receipt is written")
        # The orders are in three partitions, and the program stops to look when nothing comes for a few seconds.
        shown: list[str] = []

        def all_are_shown() -> bool:
            shown.append(run(str(tmp_path / "look.py")))
            return (shown[-1].count("receipts-"), shown[-1].count("dlqDeliveryFailureCause")) == (1, 2)

        until(all_are_shown, "the receipt and both dead letters are shown")
        dead_letters = shown[-1]
    finally:
        for process in processes:
            process.end()
        for topic in ("orders", "receipts"):
            cluster.delete(topic)
    assert "b'anna' b'{\"charged\":5,\"number\":1}'" in dead_letters
    assert "b'ben' b'{\"amount\": -5}'" in dead_letters
    assert "b'carl' b'\\xff\\xfe broken'" in dead_letters
    assert dead_letters.count("dlqDeliveryFailureCause") == 2
    assert ('"reason":"rejected"' in dead_letters, '"reason":"undecodable"' in dead_letters) == (True, True)
