"""An operator finds a failure in the console, sends its letters again, and sees what became of them."""

import json
import re
import time
from urllib.parse import unquote

import pytest

from tests.scenarios.cluster import Sent
from tests.scenarios.consoles import Browser, Events, console, text_of, tokens
from tests.scenarios.redriving import dead_letter, died, dlq_json, sent
from tests.scenarios.running import Group
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka


def _job_of(location: str) -> str:
    found = re.fullmatch(r"/jobs/([0-9a-f]{10})", location)
    assert found, location
    return found[1]


def _job_at(browser: Browser, location: str) -> str:
    """Return the name of the job that a form has led to, once it is there."""
    if location.startswith("/tasks/"):  # reading takes longer on a busy machine
        until(lambda: browser.client.get(location).status_code == 303, "the job is created")
        location = browser.client.get(location).headers["Location"]
    return _job_of(location)


def _shown_of(browser: Browser, job: str) -> str:
    """Return what the page of a job says, and nothing until the console has read of the job."""
    answer = browser.client.get(f"/jobs/{job}")
    assert answer.status_code in {200, 503}, answer.text
    return text_of(answer.text) if answer.status_code == 200 else ""


def _until_in_trail(browser: Browser, what: str) -> None:
    until(lambda: f") {what} " in text_of(browser.get("/audit")), f"{what} is in the audit trail")


def _send(browser: Browser, path: str, number: int, **fields: str) -> str:
    """Fill in the form of a preview, and return the name of the job, once it is there."""
    page = text_of(browser.get(path, query=fields))
    assert f"{number} letter" in page, page
    answer = browser.post(path, {"expected": str(number), "number": str(number), **fields})
    return _job_at(browser, answer.headers["Location"])


def test_from_a_failure_to_its_recovery(group: Group) -> None:
    """List, preview, redrive at a rate, watch it, see what recovered, and who did it."""
    group.prepare()
    dead_letter(group, range(150))
    group.cluster.produce(group.dead_letters, [died(group, n, exception="KeyError") for n in range(150, 155)])
    with console(group) as running, Browser(running) as browser:
        events = Events(browser)
        until(lambda: "155 dead letters in 2 failures" in text_of(browser.get("/failures")), "the failures are shown")
        assert "5 dead letters in 1 failure" in text_of(browser.get("/failures", query={"exception": "Key*"}))
        letters = text_of(browser.get("/letters", query={"where": "attempts = 3 and value ->> '$.n' = '7'"}))
        assert "1 letter" in letters

        wrong = {"exception": "Connection*", "expected": "150", "rate": "1000"}
        assert "enter the number" in browser.post("/redrive", {"number": "149", **wrong}, 400).text
        changed = browser.post("/redrive", wrong | {"expected": "140", "number": "140"}, 409)
        assert "The selection has changed: it was 140, and is 150" in text_of(changed.text)
        assert not dlq_json(group, "jobs")["jobs"]

        job = _send(browser, "/redrive", 150, exception="Connection*", rate="1000")
        group.worker()
        until(lambda: "done" in _shown_of(browser, job), "the job has ended")
        until(lambda: "150 recovered" in _shown_of(browser, job), "all letters recover")
        assert sent(group) == dict.fromkeys(range(150), 1)
        (document,) = dlq_json(group, "jobs")["jobs"]
        assert "(console, " in document["by"]
        assert document["options"]["rate"] == 1000
        until(
            lambda: "100 % of 150" in text_of(browser.get("/failures?state=any")), "the share that recovered is shown"
        )
        until(lambda: {"flow", "letters", "jobs", "banner", "trail"} <= events.names, "events of all kinds came")

        def counted() -> bool:
            flow = [data for name, data in list(events.seen) if name == "flow"]
            return any("5 wait for a decision" in text_of(each) for each in flow)

        until(counted, "the flow that is sent has the letters that are left")

        discarded = _send(browser, "/discard", 5, exception="KeyError")
        until(lambda: "5 set aside" in _shown_of(browser, discarded), "the others are set aside")
        until(lambda: "155 letters to remove" in text_of(browser.get("/purge")), "all are done")
        assert browser.post("/purge", {"number": "1"}, 400)
        task = browser.post("/purge", {"number": "155"}).headers["Location"]
        until(lambda: "155 dead letters are removed" in text_of(browser.get(task)), "all are removed")
        for what in ("redrive", "discard", "purge"):
            _until_in_trail(browser, what)
        assert running.stop() == 0, running.log


def test_one_letter(group: Group) -> None:
    """Its value, headers, bytes and life; what differs from another; and another value for it."""
    group.prepare()
    attack = "<script>alert(1)</script>"
    letter = died(group, 1)
    group.cluster.produce(
        group.dead_letters,
        [
            died(group, 0),
            Sent(json.dumps({"n": 1, "do": ["ok"], attack: attack}).encode(), attack.encode(), letter.headers, 0),
            Sent(b"\xff\x00", b"\xfe", died(group, 2, exception=attack).headers, 0),
        ],
    )
    name = f"{group.dead_letters}-0@1"
    with console(group) as running, Browser(running) as browser:
        until(lambda: "3 letters" in text_of(browser.get("/letters")), "the letters are there")
        for path in ("/failures", "/letters", f"/letters/{name}", f"/letters/{group.dead_letters}-0@2"):
            page = browser.get(path)
            assert attack not in page, path
            assert "&lt;script&gt;" in page, path
        page = text_of(browser.get(f"/letters/{name}"))
        for part in (f"{attack} {attack}", "traceparent", "00-1", "00000000 7b 22 6e"):
            assert part in page
        assert "cannot be decoded" in browser.get(f"/letters/{group.dead_letters}-0@2")
        # The jobs, which belong to the life of a letter, are read by another thread than the letters.
        story = f"/letters/{name}/story"
        until(lambda: "died after 3 deliveries" in text_of(browser.get(story)), "its life is shown")
        raw = browser.client.get(f"/letters/{group.dead_letters}-0@2/raw")
        assert (raw.content, raw.headers["Content-Type"]) == (b"\xff\x00", "application/octet-stream")
        differs = text_of(browser.get(f"/letters/{name}/compare", query={"with": f"{group.dead_letters}-0@0"}))
        assert "$.value.n 0 1" in differs
        assert "there is no dead letter" in browser.get(f"/letters/{name}/compare", query={"with": "x-0@0"})
        assert "no dead letter" in browser.get(f"/letters/{group.dead_letters}-0@99", 404)

        edit = f"/letters/{name}/edit"
        assert "&#34;n&#34;: 1" in browser.get(edit)
        assert "not a value of the format" in browser.post(edit, {"text": '{"n": '}, 400).text
        shown = text_of(browser.post(edit, {"text": '{"n": 41, "do": ["ok"]}'}, 200).text)
        assert "Send the edited letter" in shown
        assert not dlq_json(group, "jobs")["jobs"]
        location = browser.post(edit, {"text": '{"n": 41, "do": ["ok"]}', "send": "yes"}).headers["Location"]
        job = _job_at(browser, location)
        until(lambda: sent(group) == {41: 1}, "the edited letter is sent")
        until(lambda: "done" in _shown_of(browser, job), "its job has ended")
        lines = browser.client.post("/export", data={"csrf": browser.csrf()}).text.splitlines()
        assert len(lines) == 3
        assert {json.loads(each)["id"] for each in lines} >= {name}
        for what in ("edit", "export"):
            _until_in_trail(browser, what)


def test_roles(group: Group) -> None:
    """A viewer reads, an operator pauses and sends, an admin purges; each is named in the audit trail."""
    group.prepare()
    dead_letter(group, range(3))
    file, found = tokens(group.folder, vera="viewer", olga="operator", adam="admin")
    with console(group, "--tokens", str(file)) as running:
        with Browser(running) as stranger:
            assert stranger.client.get("/letters").status_code == 303
        browsers = {}
        for name, token in found.items():
            browsers[name] = Browser(running)
            browsers[name].log_in(token)
        vera, olga, adam = browsers["vera"], browsers["olga"], browsers["adam"]
        until(lambda: "3 letters" in text_of(vera.get("/letters")), "a viewer reads")
        for path in ("/redrive", "/discard", "/export", "/purge"):
            vera.get(path, 403)
        assert "Redrive ..." not in vera.get("/letters")
        page = olga.get("/topology")
        csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
        for data in ({}, {"csrf": csrf}):  # that of another user
            assert vera.client.post("/redrive", data=data).status_code == 403
        olga.get("/purge", 403)
        olga.post("/purge", {"number": "3"}, 403)

        group.worker()
        until(lambda: "1 process" in text_of(olga.get("/")), "the worker is seen")
        olga.post("/pauses", {"target": f"source:{group.source}", "until": "1h"})
        until(lambda: f"source {group.source}" in text_of(olga.get("/topology")), "the source is paused")
        assert dlq_json(group, "list")["letters"] == 3
        assert "is in the past" in olga.post("/pauses", {"target": "group", "until": "2020-01-01"}, 400).text
        olga.post("/pauses/resume", {"scope": "source", "topic": group.source})
        until(lambda: "Nothing is paused" in text_of(olga.get("/topology")), "and goes on")

        job = _send(olga, "/redrive", 3)
        until(lambda: "3 recovered" in _shown_of(olga, job), "all recover")
        until(lambda: "3 letters to remove" in text_of(adam.get("/purge")), "they are done")
        adam.post("/purge", {"number": "3"})

        def entries() -> str:
            return text_of(adam.get("/audit"))

        until(lambda: re.search(r"adam \(console, \S+\) purge", entries()), "the purge is in the trail")
        for what in ("redrive", "pause", "resume"):
            assert re.search(rf"olga \(console, \S+\) {what}", entries()), what
        assert "vera" not in entries()
        for browser in browsers.values():
            browser.client.close()


def test_a_job_waits_when_the_console_stops(group: Group) -> None:
    """It stops after its chunk; another console goes on with it, and cancels what a third one has begun."""
    group.prepare()
    dead_letter(group, range(400))  # at this rate they last for longer than all that follows
    with console(group) as running, Browser(running) as browser:
        until(lambda: "400 letters" in text_of(browser.get("/letters")), "the letters are there")
        job = _send(browser, "/redrive", 400, rate="4")
        until(lambda: sent(group).total() >= 2, "some are sent")
        until(lambda: "It runs in this console" in _shown_of(browser, job), "the job runs")
        assert running.stop() == 0, running.log
    group.cluster.wait_for_markers(group.ready)  # until then the last chunk cannot be read
    at_stop = sent(group)
    assert 0 < at_stop.total() < 400
    with console(group) as running, Browser(running) as browser:
        until(lambda: "does not run in this console" in _shown_of(browser, job), "the job waits")
        assert sent(group) == at_stop
        browser.post(f"/jobs/{job}/resume")
        until(lambda: sent(group).total() > at_stop.total(), "it goes on")
        browser.post(f"/jobs/{job}/cancel")
        until(lambda: "cancelled" in _shown_of(browser, job), "it is cancelled")
        for what in ("resume job", "cancel"):
            _until_in_trail(browser, what)
    assert max(sent(group).values()) == 1


def test_nothing_is_changed_or_shown_that_should_not(group: Group) -> None:
    """With --read-only and --hide-payloads, by the configuration or the command line."""
    group.prepare(console={"payloads": "hidden"})
    dead_letter(group, range(3))
    folder = group.folder / "index"
    dlq_json(group, "summary", "--index", str(folder))
    (kept,) = folder.iterdir()
    before = set(kept.glob("*.parquet"))
    assert before
    assert json.loads((kept / "manifest").read_bytes())["basis"]["values"]
    with console(group, "--read-only", "--index", str(folder)) as running, Browser(running) as browser:
        until(lambda: "3 letters" in text_of(browser.get("/letters")), "the letters are there")
        page = browser.get(f"/letters/{group.dead_letters}-0@0")
        assert "ConnectionError" in page
        assert "traceparent" not in page
        assert "&#34;do&#34;" not in page
        assert "payloads are hidden" in browser.get("/letters", 400, {"where": "value like '%ok%'"})
        assert "3 letters" in text_of(browser.get("/letters", query={"where": "attempts = 3"}))
        visitor = browser.get("/letters").partition('"X-CSRF-Token":"')[2].partition('"')[0]
        for path in ("/redrive", "/discard", "/pauses", "/outages", "/export"):
            answer = browser.client.post(path, data={"csrf": visitor, "expected": "3", "number": "3"})
            assert answer.status_code == 403
    assert not json.loads((kept / "manifest").read_bytes())["basis"]["values"]
    assert not before & set(kept.iterdir()), "what an earlier command has stored is deleted"
    assert not dlq_json(group, "jobs")["jobs"]


def test_the_topics_are_read_where_the_index_cannot_tell(group: Group) -> None:
    """The console says so, reads the letters, and asks before it sends any."""
    group.prepare(deadLetters={"index": {"path": str(group.folder / "index"), "values": False}})
    dead_letter(group, range(4))
    with console(group) as running, Browser(running) as browser:
        until(lambda: "4 letters" in text_of(browser.get("/letters")), "the letters are there")
        where = "value ->> '$.n' = '2'"
        assert "The index cannot count these letters" in browser.get("/redrive", query={"where": where})
        location = browser.post("/redrive", {"where": where}).headers["Location"]
        until(lambda: "1 letters" in text_of(browser.get(location)), "it asks")
        assert not dlq_json(group, "jobs")["jobs"]
        browser.post(location, {"number": "1", "answer": "yes"})
        until(lambda: sent(group) == {2: 1}, "it is sent")
        until(lambda: browser.client.get(location).status_code == 303, "its job is shown")
        assert unquote(browser.client.get(location).headers["Location"]).startswith("/jobs/")
        left = browser.post("/redrive", {"where": "value ->> '$.n' = '3'"}).headers["Location"]
        until(lambda: "Leave it" in text_of(browser.get(left)), "it asks again")
        browser.post(left, {"answer": "no"})
        until(lambda: "Nothing was sent" in text_of(browser.get(left)), "and leaves it")
        time.sleep(0.5)
        assert sent(group) == {2: 1}
