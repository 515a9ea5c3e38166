"""The command line in a process whose polling thread hangs for ever after SIGUSR1, wherever it is at that moment."""

import signal
import threading
from types import FrameType

from kafka_redelivery.cli.main import app


def _hang(_number: int, _frame: FrameType | None) -> None:
    threading.Event().wait()


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, _hang)
    app()
