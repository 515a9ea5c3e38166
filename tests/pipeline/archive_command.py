"""Runs ``redelivery pipeline archive`` as a process."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.scenarios.running import COMMAND


@contextmanager
def command(folder: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Archive with the configuration of a folder into its ``table``, in a process group that ends with the block."""
    arguments = ["pipeline", "archive", "--config", str(folder / "redelivery.yaml"), "--output", str(folder / "table")]
    spark = ["--spark", "spark.master=local[1]", "--spark", "spark.sql.shuffle.partitions=1"]
    whole = [sys.executable, *COMMAND, *arguments, *spark, *options]
    with subprocess.Popen(whole, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
