"""The first process of a container ends the zombies of the Spark image's Python workers, and ends at a signal.

It runs in a process namespace of its own, as in a container, but without the image, whose build takes minutes.
"""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.containers.kafka_image import ROOT

_TREE = """
import json, os, sys, time
from pathlib import Path

from kafka_redelivery.consumers.telemetry.logs import TEXT
from kafka_redelivery.pipeline.handler.child import HandlerConfig
from kafka_redelivery.pipeline.handler.handling import Handling
from kafka_redelivery.topology.config.loading import load_settings

def processes():
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        number, _, rest = stat.read_text().partition(" (")
        found[int(number)] = rest.rpartition(") ")[2][0]
    return found

worker = os.fork()
if not worker:
    config = HandlerConfig(load_settings(sys.argv[1]), Path(), tuple(sys.path), 30, TEXT)
    handler = Handling(config)
    os._exit(0)  # as Spark's Python workers leave
os.waitpid(worker, 0)
ours = {1, os.getpid()}
deadline = time.monotonic() + 60
while any(state != "Z" for number, state in processes().items() if number not in ours) and time.monotonic() < deadline:
    time.sleep(0.05)
time.sleep(0.5)
print(json.dumps([os.getpid(), len(processes().keys() - ours)]))
"""

_APP = """
import os, signal, sys, threading, time

from kafka_redelivery import App

app = App(group="billing", kafka={"bootstrap.servers": "127.0.0.1:1"})

@app.handler("orders")
def handle(record):
    pass

def end():
    while True:
        time.sleep(0.2)
        os.kill(1, signal.SIGTERM)

threading.Thread(target=end, daemon=True).start()
app.run(scheduler=bool(sys.argv[1:]))
"""


def test_no_zombie_stays_behind() -> None:
    """A handler process whose Python worker has ended by itself is collected."""
    text = (ROOT / "deploy" / "spark.Dockerfile").read_text(encoding="utf-8")
    entry_point = re.search(r"^ENTRYPOINT (\[.*\])$", text, re.MULTILINE)
    assert entry_point is not None
    words = json.loads(entry_point[1])
    first = words[: words.index("redelivery")]
    settings = {
        "group": "g",
        "kafka": {"bootstrap.servers": "nowhere"},
        "sources": [{"topic": "t"}],
        "handler": {"callable": "os.path:exists"},
    }
    done = _run(*first, sys.executable, "-c", _TREE, json.dumps(settings))

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[1] == 0


@pytest.mark.parametrize("scheduler", [False, True])
def test_an_app_that_waits_for_kafka_ends_at_a_signal(*, scheduler: bool) -> None:
    """The kernel drops signals to the first process that it does not handle."""
    done = _run(sys.executable, "-c", _APP, *(["scheduler"] if scheduler else []))
    assert done.returncode == 128 + signal.SIGTERM, done.stderr


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a program as the first process."""
    command = ["unshare", "--pid", "--fork", "--mount-proc", *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(ROOT)), *sys.path])}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
