"""Headers count in the buffer: a backlog of records with large headers does not fill the memory."""

import re
from pathlib import Path

from tests.scenarios.running import Group, Process, script
from tests.scenarios.waiting import until

RECORDS, HEADER_BYTES = 2400, 50_000
BUFFER_BYTES = 16 * 2**20


def _peak_bytes(process: Process) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    return int(re.findall(r"VmHWM:\s*(\d+) kB", status)[0]) * 1024


def test_large_headers_do_not_fill_the_memory(group: Group) -> None:
    """While one call takes seconds, the worker fetches what fits into its buffer, and not the whole backlog."""
    group.prepare(
        partitions=1, kafka={"consumer.queued.min.messages": 100}, limits={"bufferBytes": BUFFER_BYTES, "batch": 500}
    )
    worker = group.worker()
    group.send([["quiet"]])
    group.settle()
    before = _peak_bytes(worker)

    scripts = [["sleep 5"], *[["quiet"]] * (RECORDS - 1)]
    headers = [("trace", b"x" * HEADER_BYTES)]
    group.cluster.produce(group.source, [script(n, do, headers=headers) for n, do in enumerate(scripts, start=1)])
    done = {(group.source, 0): (RECORDS + 1, "")}
    until(lambda: group.cluster.committed(group.name, group.source) == done, "all are handled")

    assert _peak_bytes(worker) - before < RECORDS * HEADER_BYTES // 2
    group.stop()
