"""An operator says that a dependency is away, and that it is back: all processes obey, nothing is lost or counted."""

import json
import time

import pytest

from kafka_redelivery.topology import exit_codes
from tests.scenarios.cluster import Sent
from tests.scenarios.commands import Done, in_process, redelivery
from tests.scenarios.consoles import Browser, console, text_of
from tests.scenarios.running import Group, exactly
from tests.scenarios.scraping import free_port, readiness, value_of
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

_WAIT = ("--wait", "25s")


def _prepare(group: Group) -> None:
    group.prepare(
        sources=[{"topic": group.source, "value": {"format": "json"}, "dependencies": ["bank"]}],
        dependencies={"bank": {}, "books": {}},
        kafka={"session.timeout.ms": 6000, "heartbeat.interval.ms": 500},
    )


def _outage(group: Group, *options: str) -> Done:
    done = redelivery("outage", "bank", *options, *_WAIT, "--json", file=group.file)
    assert done.code == 0, done.out + done.err
    return done


def test_opened_and_closed_by_hand(group: Group) -> None:
    """No handler call begins meanwhile, also in a worker that joins; `status` says who, since when and what waits."""
    _prepare(group)
    group.scheduler()
    port = free_port()
    group.start("worker", "w1", f"metrics.port={port}", "metrics.host=127.0.0.1")
    group.send([["ok"]] * 5)
    group.settle()
    until(lambda: len(group.cluster.members(f"{group.name}.scheduler")) == 1, "the scheduler has joined")

    opened = json.loads(_outage(group, "--open", "--yes").out)
    assert opened["members"] == 2 == len([each for each in opened["processes"] if each["obeys"]])
    assert [(each["state"], each["operator"]) for each in opened["outages"]] == [("open", True)]
    group.send([["ok"]] * 20, first=5)
    group.worker("w2")
    until(lambda: len(group.cluster.members(group.name)) == 2, "a worker has joined")
    screen = json.loads(redelivery("status", "--json", file=group.file).out)
    assert not [each for each in screen["faults"] if "away" in each]
    assert not screen["pausing"]["pauses"]
    bank, books = screen["outages"]
    assert (bank["state"], bank["sources"], bank["by"]) == ("open", [group.source], opened["outages"][0]["by"])
    assert 20 <= bank["waiting"] <= 25
    assert (books["state"], books["sources"]) == ("closed", [])
    listed = redelivery("outage", file=group.file).out.splitlines()
    assert [each.split(", as ")[0].split(" since ")[0] for each in listed] == ["bank is away", "books is not away"]
    assert len(group.deliveries.began()) == 5
    until(lambda: value_of(port, "redelivery_outage", dependency="bank") == 1, "the metric shows it")
    until(lambda: value_of(port, "redelivery_outage_partitions") > 0, "and what waits, after the rebalance")
    assert "bank is away" in readiness(port)

    closed = json.loads(_outage(group, "--close").out)
    assert closed["members"] == 3
    assert closed["outages"] == [{"dependency": "bank", "state": "closed", "sources": [group.source]}]
    group.settle()
    until(lambda: value_of(port, "redelivery_outage", dependency="bank") == 0, "and that it is over")
    group.stop()
    assert group.outputs() == exactly(range(25))
    assert set(group.deliveries.counts().values()) == {1}


def test_in_the_console(group: Group) -> None:
    """It asks before it opens, shows who has opened it, and writes both to the audit trail."""
    _prepare(group)
    with console(group) as running, Browser(running) as browser:
        until(lambda: "No dependency is away" in text_of(browser.get("/topology")), "the page has the outages")
        form = {"dependency": "bank", "until": "1h"}
        assert "confirm that the records that need bank are to wait" in browser.post("/outages", form, 400).text
        assert "is in the past" in browser.post("/outages", form | {"until": "2020-01-01", "sure": "yes"}, 400).text
        assert "food is not a dependency" in browser.post("/outages", {"dependency": "food"}, 400).text
        browser.post("/outages", form | {"sure": "yes"})
        until(lambda: "bank is away since" in text_of(browser.get("/topology")), "it is open")
        assert "away" in text_of(browser.get("/"))
        [bank] = json.loads(_outage(group).out)["outages"]
        assert "(console, " in bank["by"]
        assert bank["untilMs"] - bank["sinceMs"] == pytest.approx(3_600_000, abs=60_000)
        browser.post("/outages/close", {"dependency": "bank"})
        until(lambda: "No dependency is away" in text_of(browser.get("/topology")), "it is closed")
        for what in ("open outage", "close outage"):
            until(lambda each=what: f") {each} " in text_of(browser.get("/audit")), f"{what} is in the audit trail")  # type: ignore[misc] # of a lambda


def test_check_compares_the_longest_outage_with_the_retention(group: Group) -> None:
    """And with what is not finished and how old that is. It warns with figures, and its exit code is 0."""
    _prepare(group)
    group.cluster.produce(
        group.source, [Sent(b'{"n": 1, "do": ["ok"]}', None, (), 0, time.time_ns() // 10**6 - 3_000_000)]
    )

    def warned(longest: str) -> list[str]:
        limit = f"--set=dependencies.bank={{maxOutage: {longest}}}"
        done = redelivery("topology", "check", "--json", limit, file=group.file)
        assert done.code == 0, done.out
        return [each["problem"] for each in json.loads(done.out)["faults"] if each["topic"] == group.source]

    keeps = f"{group.source} keeps records for 1d (retention.ms)"
    group.cluster.alter(group.source, retention_ms="86400000")
    done = json.loads(redelivery("topology", "check", "--json", file=group.file).out)
    assert f"the outage of bank has no maxOutage, and {keeps}" in [each["problem"] for each in done["faults"]]
    assert warned("2d") == [f"the outage of bank may last for 2d (maxOutage), and {keeps}"]
    assert warned("23h") == []
    [behind] = warned("1410m")
    assert behind.startswith(
        "up to 1 records that are not finished are older than 30m, which is its retention (1d) less"
    )


def test_wrong_usage(group: Group) -> None:
    """A name that is not configured, options that contradict each other, no terminal to ask on, no control topic."""
    group.configure(dependencies={"bank": {}})
    wrong = [
        (("food",), "the configuration has bank"),
        (("bank", "--open", "--close"), "leave out --open or --close"),
        (("--open",), "name the dependency"),
        (("bank", "--close", "--until", "1h"), "it needs --open"),
        (("bank", "--open", "--yes", "--until", "2020-01-01T00:00:00Z"), "is in the past"),
        (("bank", "--open"), "there is no terminal to ask on"),
    ]
    for options, problem in wrong:
        done = in_process("outage", *options, file=group.file)
        assert (done.code, problem in done.err) == (exit_codes.USAGE, True), done.err
    assert in_process("outage", file=group.file).out == "bank is not away\n"
    done = in_process("outage", "bank", "--close", file=group.file)
    assert done.code == exit_codes.FAILED
    assert "nothing is done, because it cannot be written to the audit trail" in done.err
    assert "run: redelivery topology apply" in done.err
