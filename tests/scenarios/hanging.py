"""The command line, with a polling thread that hangs for ever after SIGUSR1: signals interrupt it where it is."""

import signal
import threading
from types import FrameType

from cli.main import app


def _hang(_number: int, _frame: FrameType | None) -> None:
    threading.Event().wait()


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, _hang)
    app()
