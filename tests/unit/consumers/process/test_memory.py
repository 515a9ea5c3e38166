"""What a process does with memory."""

import subprocess
import sys

import pytest

_HEAPS = """
import ctypes, re, threading
from kafka_redelivery.consumers.process.memory import few_arenas

if {few}:
    few_arenas()
libc, together = ctypes.CDLL(None), threading.Barrier(9)
libc.malloc.restype = ctypes.c_void_p

def take() -> None:
    together.wait()
    libc.malloc(1_000)
    together.wait()  # all at a time, so that no thread takes the heap of one that has ended

threads = [threading.Thread(target=take) for _ in range(8)]
for thread in threads:
    thread.start()
together.wait()
together.wait()
libc.fopen.restype = ctypes.c_void_p
libc.malloc_info(0, ctypes.c_void_p(libc.fopen(b"/dev/stdout", b"w")))
libc.fflush(None)
"""


@pytest.mark.parametrize("few", [True, False])
def test_the_threads_of_a_process_share_two_heaps(*, few: bool) -> None:
    """Without it the C library makes one for each thread."""
    code = _HEAPS.format(few=few)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={}, timeout=60)
    heaps = done.stdout.count("<heap nr=")
    assert heaps == 2 if few else heaps > 2, done.stdout
