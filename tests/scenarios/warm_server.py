"""A process that has imported the product and forks, so that the processes of tests start without importing it.

``python -m tests.scenarios.warm_server``; standard input is a socket. Each message on it is a program as JSON, with
three file descriptors: standard output, standard error, and a socket, on which the answers are the process id of the
program and, when it has ended, its exit code. See :mod:`tests.scenarios.warm`.
"""

import gc
import json
import os
import select
import signal
import socket
import sys
import threading
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any, Final

import kafka_redelivery

_MESSAGE_BYTES: Final = 2**20
_GRACE_S: Final = 1.0
"""Time between SIGTERM and SIGKILL after the test process has ended."""

_NOT_LOADED: Final = (
    "kafka_redelivery.pipeline",
    "kafka_redelivery.spark",
    "kafka_redelivery.cli.console",
    "kafka_redelivery.cli.views.dlq",
    "kafka_redelivery.cli.views.letter",
    "kafka_redelivery.dead_letters",
)
"""What imports Spark or DuckDB. Spark's libraries start threads, and a process with threads must not fork. DuckDB
reports leaks at the end of a process that was forked after its import."""


def load() -> None:
    """Import every module that a worker, a scheduler or a command imports, and the handlers of most tests."""
    for each in walk_packages(kafka_redelivery.__path__, "kafka_redelivery."):
        if not each.name.startswith(_NOT_LOADED):
            import_module(each.name)
    import_module("tests.scenarios.handlers")
    assert len(list(Path("/proc/self/task").iterdir())) == 1, threading.enumerate()
    assert "duckdb" not in sys.modules


def serve(requests: socket.socket) -> dict[str, Any] | None:
    """Fork for each request until the other end of the socket is closed.

    Returns:
        In the process of a program: the request. In the server: ``None``.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the guards
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, _MESSAGE_BYTES, 3)
        if not message:
            return None
        if not os.fork():
            requests.close()
            return _guarded(message, *descriptors)
        for each in descriptors:
            os.close(each)


def _guarded(message: bytes, output: int, errors: int, answers: int) -> dict[str, Any]:
    """Fork once more: the child returns the request, the parent watches it and ends with it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    child = os.fork()
    if not child:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, standard in ((nothing, 0), (output, 1), (errors, 2)):
            os.dup2(descriptor, standard)
            os.close(descriptor)
        os.close(answers)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        request: dict[str, Any] = json.loads(message)
        return request
    with socket.socket(fileno=answers) as test:
        test.send(b"%d" % child)
        ended = os.pidfd_open(child)
        if ended not in select.select([ended, test.fileno()], [], [])[0]:
            # The test process has ended.
            os.kill(child, signal.SIGTERM)
            select.select([ended], [], [], _GRACE_S)
            os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        try:
            test.send(b"%d" % code)
        finally:
            os._exit(0)


def run(request: dict[str, Any]) -> None:
    """Run a program as ``python -c CODE`` does."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    option, code, *arguments = request["command"]
    sys.argv = [option, *arguments]
    main = sys.modules["__main__"] = ModuleType("__main__")
    exec(compile(code, "<string>", "exec"), main.__dict__)  # noqa: S102 - what -c does


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the tests, and this process with them
    load()
    gc.freeze()  # a collection in a forked process would copy the memory of all modules
    wanted = serve(socket.socket(fileno=os.dup(0)))
    if wanted is not None:
        run(wanted)
