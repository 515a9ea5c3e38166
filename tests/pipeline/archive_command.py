"""Runs ``redelivery pipeline archive`` as a process."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from tests.scenarios.running import COMMAND


@contextmanager
def command(folder: Path, *options: str, errors: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Archive with the configuration of a folder into its ``table``, in a process group that ends with the block.

    ``errors``: a file that gets what it writes to stderr.
    """
    arguments = ["pipeline", "archive", "--config", str(folder / "redelivery.yaml"), "--output", str(folder / "table")]
    spark = ["--spark", "spark.master=local[1]", "--spark", "spark.sql.shuffle.partitions=1"]
    whole = [sys.executable, *COMMAND, *arguments, *spark, *options]
    stderr = nullcontext() if errors is None else errors.open("wb")
    with stderr as to, subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=to, start_new_session=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
