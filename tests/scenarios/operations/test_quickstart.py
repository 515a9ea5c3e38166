"""The quick start works line by line: a late charge succeeds, impossible orders die, and a redrive recovers one."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from examples import quickstart
from tests.scenarios.cluster import Cluster
from tests.scenarios.running import COMMAND, Process
from tests.scenarios.scraping import free_port
from tests.scenarios.waiting import until

_FOLDER = Path(quickstart.__file__).parent
_PORT = "8099"
_BLOCKS = [
    token.content
    for token in MarkdownIt().parse((_FOLDER / "README.md").read_text(encoding="utf-8"))
    if token.type == "code_block"
]


class Checkout:
    """A copy of what the page uses of a checkout, in which its blocks run as they are printed."""

    def __init__(self, root: Path, servers: str) -> None:
        self._root = root
        self._environment = os.environ | {"REDELIVERY_KAFKA__BOOTSTRAP_SERVERS": servers, "COLUMNS": "200"}
        self._terminals: list[Process] = []
        self._script(root / "dev", f'shift\nexec "{sys.executable}" -c "{COMMAND[1]}" "$@"')
        self._script(root / ".venv/bin/python", f'exec "{sys.executable}" "$@"')
        (root / "examples/quickstart").mkdir(parents=True)
        port = str(free_port())
        for file in ("bank.py", "handlers.py", "look.py", "orders.py", "redelivery.yaml"):
            text = (_FOLDER / file).read_text(encoding="utf-8").replace(_PORT, port)
            (root / "examples/quickstart" / file).write_text(text, encoding="utf-8")

    @staticmethod
    def _script(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    def run(self, block: str, answer: str = "") -> str:
        """Run a block as a shell does on a terminal, and return what it prints."""
        keyboard, terminal = os.openpty()
        try:
            os.write(keyboard, answer.encode())
            done = subprocess.run(
                ["/bin/sh", "-e", "-c", block],
                cwd=self._root,
                env=self._environment,
                stdin=terminal,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        finally:
            os.close(keyboard)
            os.close(terminal)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def open(self, block: str) -> Process:
        """Run a block whose last line does not end, in a terminal of its own."""
        *lines, last = block.splitlines()
        script = "\n".join([f'cd "{self._root}"', *lines, f"exec {last}"])
        command = ("-c", f"import os; os.execv('/bin/sh', ['sh', '-e', '-c', {script!r}])")
        log = self._root / f"{len(self._terminals)}.log"
        self._terminals.append(Process(last, command, self._environment, log))
        return self._terminals[-1]

    def close(self) -> None:
        """End what runs in all terminals."""
        for each in self._terminals:
            each.end()


@pytest.fixture
def checkout(cluster: Cluster, tmp_path: Path) -> Iterator[Checkout]:
    """A checkout, and after the test no topics of it."""
    made = Checkout(tmp_path, cluster.servers)
    yield made
    made.close()
    for topic in ("orders", "receipts"):
        cluster.delete(topic)


@pytest.mark.slow
def test_the_page_line_by_line(cluster: Cluster, checkout: Checkout) -> None:
    """Each block of the page, in its order. Its first one is the area of the tests, its second one starts a Kafka."""
    tests, broker, scheduler, worker, orders, bank, look, redrive = _BLOCKS
    assert tests == "./dev test examples/quickstart\n"
    for topic, partitions in re.findall(r"--topic (\w+)=(\d+)", broker):
        cluster.create(topic, partitions=int(partitions))
    released = checkout.open(scheduler)
    until(lambda: "reads the group's tiers" in released.log, "the scheduler runs")
    handled = checkout.open(worker)
    checkout.run(orders)
    until(lambda: "next delivery in 1000 ms: URLError" in handled.log, "the first order has failed")
    opened = checkout.open(bank)
    until(lambda: sum(cluster.ends("receipts").values()) > 0, "a receipt is written")
    shown: list[str] = []

    def all_are_shown() -> bool:
        """The program stops to look when nothing comes for a few seconds."""
        shown.append(checkout.run(look))
        return (shown[-1].count("receipts-"), shown[-1].count("dlqDeliveryFailureCause")) == (1, 2)

    until(all_are_shown, "the receipt and both dead letters are shown")
    assert "b'anna' b'{\"charged\":5,\"number\":1}'" in shown[-1]
    assert "b'ben' b'{\"amount\": -5}'" in shown[-1]
    assert "b'carl' b'\\xff\\xfe broken'" in shown[-1]
    assert ('"reason":"rejected"' in shown[-1], '"reason":"undecodable"' in shown[-1]) == (True, True)

    opened.end()
    checkout.run(orders)
    until(lambda: "redeliveries_exceeded" in handled.log, "the first order of the second time is dead")
    checkout.open(bank)
    folder, _, jobs = redrive.splitlines()
    checkout.run(redrive, "y\n")

    def is_recovered() -> bool:
        """The last numbers of the row: letters, sent, recovered, and eight others."""
        numbers = re.findall(r"\b\d+\b", checkout.run(f"{folder}\n{jobs}"))
        return numbers[-11:] == ["1"] * 3 + ["0"] * 8

    until(is_recovered, "the order has been charged")
