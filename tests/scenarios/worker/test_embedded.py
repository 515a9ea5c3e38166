"""A worker in a program that does other things: what the program does to it loses, doubles and counts no record."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from urllib.request import urlopen

import psutil
import pytest

from kafka_redelivery import App, Context, Record
from kafka_redelivery.consumers.embedding import Running
from kafka_redelivery.consumers.errors import HaltedError
from tests.scenarios.deliveries import LOG
from tests.scenarios.handlers import OUTPUT, scripted, scripted_async
from tests.scenarios.running import SHORT_SESSION, Group, Process, exactly, script
from tests.scenarios.waiting import until

pytestmark = pytest.mark.slow

QUICK_STOP = {"shutdownTimeout": "4s", "rebalanceTimeout": "1s"}
_SCRIPTS = {0: ["raise", "ok"], 1: ["reject"]}
_NUMBER = 60


@pytest.fixture
def scripts(group: Group, monkeypatch: pytest.MonkeyPatch) -> Group:
    """The group, whose handlers run in this process."""
    monkeypatch.setenv(OUTPUT, group.output)
    monkeypatch.setenv(LOG, str(group.deliveries.path))
    return group


Start = Callable[[Sequence[str]], Process]


@pytest.fixture
def start(scripts: Group) -> Iterator[Start]:
    """Start a program that makes an App of the group; at the end the processes that it has started are killed."""

    def started(command: Sequence[str]) -> Process:
        environment = {**os.environ, "SCENARIO_FILE": str(scripts.file), "SCENARIO_SOURCE": scripts.source}
        program = Process("program", command, environment, scripts.folder / "program.log")
        scripts.processes.append(program)
        return program

    yield started
    for program in scripts.processes:
        if program.running:
            for child in psutil.Process(program.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    child.kill()


def app_of(group: Group, handler: Callable[..., object]) -> App:
    """Return the group as an App."""
    app = App.from_config(group.file)
    app.handler(group.source)(handler)
    return app


def _send(group: Group) -> set[int]:
    """Write records; return the numbers of those that will be dead letters."""
    group.send(_SCRIPTS.get(n % 10, ["ok"]) for n in range(_NUMBER))
    return {n for n in range(_NUMBER) if n % 10 == 1}


async def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait without blocking the loop."""
    await asyncio.to_thread(until, condition, what)


def test_a_program_runs_worker_and_scheduler_in_its_threads(scripts: Group, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing of the process is changed, also not by a second run of the same App. One endpoint serves both."""
    caplog.set_level("INFO")
    scripts.prepare(handler={"slots": 2}, metrics={"port": 0})
    app = app_of(scripts, scripted)

    def state() -> object:
        signals = [signal.getsignal(each) for each in signal.Signals]
        log = logging.getLogger()
        return signals, gc.get_threshold(), sys.path[:], log.level, log.handlers[:]

    before, frozen = state(), gc.get_freeze_count()
    dead = _send(scripts)
    running = app.running(scheduler=True)
    with running:
        scripts.settle()
        until(lambda: running.health.ready().ok, "both are members of their groups")
        assert state() == before
        assert gc.get_freeze_count() <= frozen  # those of the tests may go
        [address] = [each.rpartition(" ")[2] for each in caplog.messages if each.startswith("metrics and probes at ")]
        with urlopen(f"{address}/readyz", timeout=30) as answer:  # noqa: S310 - on this machine
            assert answer.read().startswith(b"ready")
        with urlopen(f"{address}/metrics", timeout=30) as answer:  # noqa: S310
            metrics = answer.read().decode()
        assert 'role="worker"' in metrics
        assert 'role="scheduler"' in metrics
    scripts.send([["ok"]] * 10, first=_NUMBER)
    with running:
        scripts.settle()
    assert state() == before
    assert scripts.outputs() == exactly({*range(_NUMBER + 10)} - dead)
    assert scripts.dead() == exactly(dead)


def test_asynchronous_handlers_run_on_the_loop_of_the_program(scripts: Group) -> None:
    """So they use what the program has opened there. Two Apps run beside each other."""
    scripts.prepare(handler={"slots": 4})
    seen = set()

    async def main() -> None:
        gate = asyncio.Event()

        async def handle(record: Record, context: Context) -> None:
            await gate.wait()
            seen.add(asyncio.get_running_loop())
            await scripted_async(record, context)

        dead = _send(scripts)
        first, second = (app_of(scripts, handle).running(scheduler=scheduler) for scheduler in (True, False))
        async with first, second:
            await eventually(lambda: len(scripts.cluster.members(scripts.name)) == 2, "both are members")
            gate.set()
            await asyncio.to_thread(scripts.settle)
            assert (first.failed, second.failed) == (None, None)
        assert seen == {asyncio.get_running_loop()}
        assert scripts.outputs() == exactly({*range(_NUMBER)} - dead)
        assert scripts.dead() == exactly(dead)

    asyncio.run(main())


def test_a_blocked_loop_costs_no_partition_and_no_attempt(scripts: Group, caplog: pytest.LogCaptureFixture) -> None:
    """It lasts longer than the session of the group, and the deadline of the calls that it delays."""
    scripts.prepare(
        kafka=SHORT_SESSION,
        handler={"slots": 4, "ordering": "unordered", "deadline": "2s"},
        policyEntry={"redeliveryPolicy": {"maximumRedeliveries": 0}},
    )

    async def main() -> None:
        async with app_of(scripts, scripted_async).running() as running:
            await eventually(lambda: running.health.ready().ok, "it is a member of its group")
            members = await asyncio.to_thread(scripts.cluster.members, scripts.name)
            await asyncio.to_thread(scripts.send, [["sleep 0.5"]] * 8)
            await eventually(lambda: len(scripts.deliveries.began()) >= 4, "calls have begun")
            time.sleep(7)  # noqa: ASYNC251 - the fault
            assert "the event loop of the program is blocked" in running.health.ready().reason
            await asyncio.to_thread(scripts.settle)
            assert await asyncio.to_thread(scripts.cluster.members, scripts.name) == members
            assert running.health.ready().reason == "ready"

    asyncio.run(main())
    assert any("is blocked, and async handlers wait: " in each and __file__ in each for each in caplog.messages)
    assert scripts.outputs() == exactly(range(8))
    assert scripts.deliveries.counts() == exactly(range(8))
    assert scripts.dead() == {}


async def _raises(_: asyncio.Task[None]) -> None:
    raise KeyError("of the program")


async def _is_cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.sleep(60)


@pytest.mark.parametrize(
    ("end", "error"), [(_raises, KeyError), (_is_cancelled, asyncio.CancelledError)], ids=["error", "cancelled"]
)
def test_records_of_a_block_that_ends_early_are_delivered_again(
    scripts: Group, end: Callable[[asyncio.Task[None]], Awaitable[None]], error: type[BaseException]
) -> None:
    """Within the time limit, and as the same attempt; finished ones are not handled again."""
    scripts.prepare(handler={"slots": 30, "ordering": "unordered"}, limits=QUICK_STOP)
    scripts.send([["stall 60"] if n % 2 else ["ok"] for n in range(20)])
    app = app_of(scripts, scripted_async)

    async def block() -> None:
        task = asyncio.current_task()
        assert task is not None
        async with app.running():
            await eventually(lambda: len(scripts.deliveries.counts()) == 20, "all calls have begun")
            await end(task)

    async def main() -> None:
        began_s = time.monotonic()
        task = asyncio.create_task(block())
        with pytest.raises(error):
            await task
        assert time.monotonic() - began_s < 30
        await asyncio.sleep(0)
        assert {each.get_name() for each in asyncio.all_tasks()} == {asyncio.current_task().get_name()}  # type: ignore[union-attr]
        assert scripts.outputs() == exactly(range(0, 20, 2))
        async with app.running():
            await asyncio.to_thread(scripts.settle)

    asyncio.run(main())
    assert scripts.outputs() == exactly(range(20))
    assert scripts.deliveries.attempts() == {n: [1, 1] if n % 2 else [1] for n in range(20)}


def test_a_loop_that_ends_with_all_its_tasks_fails_no_record(scripts: Group) -> None:
    """The handlers are cancelled in the same moment as the block."""
    scripts.prepare(handler={"slots": 30, "ordering": "unordered"}, limits=QUICK_STOP)
    scripts.send([["stall 60"]] * 20)
    app = app_of(scripts, scripted_async)

    async def block() -> None:
        async with app.running():
            await asyncio.sleep(60)

    async def main() -> None:
        task = asyncio.create_task(block())
        await eventually(lambda: len(scripts.deliveries.counts()) == 20, "all calls have begun")
        assert not task.done()
        raise KeyError("of the program")

    with pytest.raises(KeyError):
        asyncio.run(main())
    assert scripts.pending() != []
    with app.running():
        scripts.settle()
    assert scripts.outputs() == exactly(range(20))
    assert all({*attempts} == {1} for attempts in scripts.deliveries.attempts().values())


def test_a_handler_that_does_not_return_keeps_no_program(scripts: Group) -> None:
    """The block of a thread ends in time, and its record is delivered again, uncounted."""
    scripts.prepare(limits=QUICK_STOP)
    scripts.send([["stall 30"], ["ok"]])
    app = app_of(scripts, scripted)
    with app.running():
        until(lambda: bool(scripts.deliveries.began()), "the call has begun")
        left_s = time.monotonic()
    assert time.monotonic() - left_s < 15
    with app.running():
        scripts.settle()
    assert scripts.outputs() == exactly(range(2))
    assert {*scripts.deliveries.attempts()[0]} == {1}


def test_a_worker_that_fails_ends_the_block(scripts: Group) -> None:
    """And its record is delivered again."""
    scripts.prepare(partitions=1)
    scripts.send([["memory"], ["ok"]])
    running: list[Running] = []

    async def main() -> None:
        async with app_of(scripts, scripted_async).running() as found:
            running.append(found)
            await asyncio.sleep(60)

    with pytest.raises(HaltedError, match="MemoryError"):
        asyncio.run(main())
    assert isinstance(running[0].failed, HaltedError)
    assert running[0].health.alive() == (False, "worker: ended by HaltedError")
    with app_of(scripts, scripted).running():
        scripts.settle()
    assert scripts.outputs() == exactly(range(2))


def test_one_command_runs_both(group: Group) -> None:
    """And a signal stops both."""
    group.prepare()
    both = group.start("run", "r1")
    dead = _send(group)
    group.settle()
    assert {*group.cluster.members(group.name)} == {f"{group.name}.r1"}
    assert {*group.cluster.members(f"{group.name}.scheduler")} == {f"{group.name}.scheduler.r1"}
    both.stop()
    assert both.log.splitlines()[-1].endswith(": stopped")
    assert group.outputs() == exactly({*range(_NUMBER)} - dead)
    assert group.dead() == exactly(dead)


_SERVICE = """
import os
from kafka_redelivery import App
from tests.scenarios.handlers import scripted, scripted_async

app = App.from_config(os.environ["SCENARIO_FILE"])
app.handler(os.environ["SCENARIO_SOURCE"])(scripted_async)
app.handler(os.environ["SCENARIO_SOURCE"] + ".sync")(scripted)

if __name__ == "__main__":
    app.run()
"""


def test_commands_and_a_script_run_an_app(scripts: Group, start: Start) -> None:
    """Each of its sources has a function of its own."""
    scripts.prepare(partitions=4, sources=[{"topic": scripts.source, "value": {"format": "json"}}])
    another = f"{scripts.source}.sync"
    scripts.cluster.create(another, partitions=2)
    (scripts.folder / "the_service.py").write_text(_SERVICE)
    scripts.configuration["sources"] += [{"topic": another, "value": {"format": "json"}}]
    scripts.configure()
    scripts.apply()
    path = f"import sys; sys.path.append({str(scripts.folder)!r})\n"
    command = f"{path}from kafka_redelivery.cli.main import app; app()"
    programs = [
        start(["-c", command, "worker", "--app", "the_service:app", "--set", "instance=w1"]),
        start(["-c", command, "scheduler", "--app", "the_service:app", "--set", "instance=s1"]),
        start(["-c", f"{path}import runpy; runpy.run_module('the_service', run_name='__main__')"]),
    ]
    until(lambda: len(scripts.cluster.members(scripts.name)) == 2, "both workers are members")
    dead = _send(scripts)
    scripts.cluster.produce(another, [script(n, ["ok"]) for n in range(_NUMBER, _NUMBER + 10)])
    until(lambda: len(scripts.outputs()) == _NUMBER + 10 - len(dead), "all are handled")
    for program in programs:
        program.terminate()
    assert [program.wait(40) for program in programs] == [0, 0, 0]
    assert scripts.outputs() == exactly({*range(_NUMBER + 10)} - dead)
    assert scripts.dead() == exactly(dead)


_PROGRAM = """
import asyncio, os
from kafka_redelivery import App
from tests.scenarios.handlers import scripted_async

app = App.from_config(os.environ["SCENARIO_FILE"])
app.handler(os.environ["SCENARIO_SOURCE"])(scripted_async)

async def main():
    async with app.running(scheduler=True):
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.crash
def test_a_program_that_is_killed_loses_and_doubles_nothing(scripts: Group, start: Start) -> None:
    """With worker and scheduler in it, three times under load."""
    number = 1200
    scripts.prepare(
        partitions=4,
        instance="host",
        kafka=SHORT_SESSION,
        handler={"slots": 4},
        limits={"batch": 50, "bufferRecords": 400},
    )
    program = start(["-c", _PROGRAM])
    scripts.send(_SCRIPTS.get(n % 10, ["ok"]) for n in range(number))
    dead = {n for n in range(number) if n % 10 == 1}
    with scripts.cluster.follow(scripts.output) as tail:
        for part in (0.1, 0.3, 0.5):
            tail.reach(int(part * (number - len(dead))))
            program.kill()
            assert len(tail.records) < number - len(dead), "the kill came too late to prove anything"
            program = start(["-c", _PROGRAM])
    scripts.settle()
    assert scripts.outputs() == exactly({*range(number)} - dead)
    assert scripts.dead() == exactly(dead)
    assert scripts.pending() == []


_FORKS = """
import os, signal
from kafka_redelivery import App
from tests.scenarios.handlers import scripted_async

app = App.from_config(os.environ["SCENARIO_FILE"])
app.handler(os.environ["SCENARIO_SOURCE"])(scripted_async)
app.settings
running = app.running(scheduler=True)
children = []
for _ in range(2):
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, lambda *_: running.stop())
        with running:
            running.wait()
        os._exit(0)
    children.append(child)
signal.signal(signal.SIGTERM, lambda *_: [os.kill(child, signal.SIGTERM) for child in children])
raise SystemExit(sum(os.waitpid(child, 0)[1] for child in children))
"""


def test_a_server_may_import_the_app_and_fork(scripts: Group, start: Start) -> None:
    """What is open in a process is opened after the fork."""
    scripts.prepare(partitions=4, instance="web")
    server = start(["-c", _FORKS])
    names = {f"{scripts.name}.web", f"{scripts.name}.web.2"}
    until(lambda: {*scripts.cluster.members(scripts.name)} == names, "each child is a member")
    dead = _send(scripts)
    scripts.settle()
    server.terminate()
    assert server.wait(40) == 0
    assert scripts.outputs() == exactly({*range(_NUMBER)} - dead)
    assert scripts.dead() == exactly(dead)


_SERVER = """
import os
from contextlib import asynccontextmanager
from starlette.applications import Starlette
from kafka_redelivery import App
from tests.scenarios.handlers import scripted_async

app = App.from_config(os.environ["SCENARIO_FILE"])
app.handler(os.environ["SCENARIO_SOURCE"])(scripted_async)
running = app.running(scheduler=True)

@asynccontextmanager
async def lifespan(_):
    async with running:
        yield

service = Starlette(lifespan=lifespan)
service.mount("/redelivery", running.asgi)
"""


def test_processes_of_one_server_have_names_of_their_own(scripts: Group, start: Start) -> None:
    """None fences another, and one that is killed gets its name again."""
    scripts.prepare(partitions=6, kafka=SHORT_SESSION, instance="web")
    (scripts.folder / "server.py").write_text(_SERVER)
    command = ["-m", "uvicorn", "server:service", "--workers", "3", "--port", "0", "--app-dir", str(scripts.folder)]
    server = start(command)

    def joined() -> bool:
        workers = scripts.cluster.members(scripts.name)
        schedulers = scripts.cluster.members(f"{scripts.name}.scheduler")
        names = [{name.removeprefix(f"{scripts.name}.") for name in members} for members in (workers, schedulers)]
        expected = {"web", "web.2", "web.3"}
        return names == [expected, {f"scheduler.{each}" for each in expected}] and all(workers.values())

    until(joined, "each process is a member of both groups")
    dead = _send(scripts)
    until(lambda: len(scripts.deliveries.counts()) > 5, "records are handled")
    os.kill(scripts.deliveries.began()[0].pid, signal.SIGKILL)
    scripts.settle()
    until(joined, "the process that takes its place has its name")
    assert "fenced" not in server.log
    assert scripts.outputs() == exactly({*range(_NUMBER)} - dead)
    assert scripts.dead() == exactly(dead)
    server.terminate()
    assert server.wait(40) == 0
