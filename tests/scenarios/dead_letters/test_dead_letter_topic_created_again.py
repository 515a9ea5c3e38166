"""Of a dead-letter topic that was deleted and created again no letter is sent or removed that was not chosen."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from html import unescape
from threading import Event, Thread

import pytest

from kafka_redelivery.cli import options
from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.editing import LetterEditing
from kafka_redelivery.dead_letters.foreign.systems import Recognition
from kafka_redelivery.dead_letters.importing import Import
from kafka_redelivery.dead_letters.jobs import OpenJob
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.purge import Purge
from kafka_redelivery.dead_letters.reading import no_progress
from kafka_redelivery.dead_letters.source import OtherSystem
from kafka_redelivery.topology.redrive.job import JobOptions, JobSpec, SliceId, job_records
from kafka_redelivery.topology.redrive.offset_set import OffsetSet
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from tests.foreign.recorded import Letters
from tests.scenarios.cluster import Sent
from tests.scenarios.commands import Done
from tests.scenarios.consoles import Browser, console, text_of
from tests.scenarios.redriving import created, dead_letter, died, dlq, dlq_json, previewed, sent, settings_of
from tests.scenarios.running import Group, exactly
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka

LETTERS = 20


def make_again(group: Group, numbers: Iterable[int]) -> None:
    """Delete the dead-letter topic, create it again, and write other letters."""
    group.cluster.delete(group.dead_letters)
    group.cluster.create(group.dead_letters, partitions=2)
    dead_letter(group, numbers)


def names_it(group: Group, text: str) -> bool:
    """Whether a message says what has happened."""
    return f"topic {group.dead_letters} was deleted and created again since" in " ".join(text.split())


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Answer each question with yes, after something else has happened."""

    def prepare(before: Callable[[], object]) -> None:
        def confirm(_: str) -> bool:
            before()
            return True

        monkeypatch.setattr(options, "confirm", confirm)
        monkeypatch.setattr(options, "can_ask", lambda **_: True)

    return prepare


def refused(group: Group, done: Done) -> bool:
    """Whether a command has failed and named the reason."""
    assert done.code == 1, done
    assert names_it(group, done.err), done
    assert "preview again" in " ".join(done.err.split()), done
    return True


Answer = Callable[[Callable[[], object]], None]


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("command", ["redrive", "discard"])
def test_between_preview_and_answer(group: Group, answer: Answer, command: str, *, index: bool) -> None:
    """As many other letters as before, with a preview from the index or from the topics."""
    group.prepare()
    if not index:
        (group.folder / "index").write_text("no folder", encoding="utf-8")
    dead_letter(group, range(LETTERS))
    answer(lambda: make_again(group, range(100, 100 + LETTERS)))
    assert refused(group, dlq(group, command))
    assert sent(group) == exactly([])
    assert dlq_json(group, "jobs")["jobs"] == []
    answer(lambda: None)
    assert dlq(group, command).code == 0
    assert sent(group) == exactly(range(100, 100 + LETTERS) if command == "redrive" else [])


def test_no_letter_of_before_is_selected(group: Group) -> None:
    """The index forgets them at once, also while their rows are still in its files."""
    group.prepare()
    group.cluster.produce(group.dead_letters, [died(group, n, exception="Old") for n in (0, 2, 4)])
    assert dlq_json(group, "list", "--exception", "Old")["letters"] == 3
    group.cluster.delete(group.dead_letters)
    group.cluster.create(group.dead_letters, partitions=2)
    dlq(group, "show", f"{group.dead_letters}-0@0")  # learns of the topic without reading its letters
    assert dlq_json(group, "list")["letters"] == 0
    dead_letter(group, range(100, 140))
    assert dlq_json(group, "list", "--exception", "Old")["letters"] == 0
    assert dlq_json(group, "redrive", "--exception", "Old", "--yes")["letters"] == 0
    assert sent(group) == exactly([])
    assert dlq_json(group, "list")["letters"] == 40


def test_it_is_empty_now(group: Group, answer: Answer) -> None:
    """Neither the answer nor a job waits for letters that do not come, and no transaction is suspected."""
    group.prepare()
    dead_letter(group, range(LETTERS))
    job = created(settings_of(group), JobOptions(group=group.name))[1].id
    make_again(group, [])
    done = dlq(group, "resume", job)
    assert refused(group, done)
    assert "transaction" not in done.err
    dead_letter(group, range(LETTERS))
    answer(lambda: make_again(group, []))
    assert refused(group, dlq(group, "redrive"))
    dead_letter(group, range(LETTERS))
    assert dlq_json(group, "discard", "--yes")["setAside"] == LETTERS
    answer(lambda: make_again(group, []))
    assert refused(group, dlq(group, "purge"))


@pytest.mark.parametrize("discard", [False, True])
def test_between_creation_and_resume(group: Group, *, discard: bool) -> None:
    """The job does nothing and can be cancelled; the letters that are there now are free, and are sent when chosen."""
    group.prepare()
    dead_letter(group, range(LETTERS))
    job = created(settings_of(group), JobOptions(group=group.name, discard=discard))[1].id
    make_again(group, range(100, 150))
    done = dlq(group, "resume", job)
    assert refused(group, done)
    assert f"nothing was {'set aside' if discard else 'sent'}" in " ".join(done.err.split())
    assert sent(group) == exactly([])
    assert [kind["state"] for kind in dlq_json(group, "list")["kinds"]] == ["waiting"]
    (document,) = dlq_json(group, "jobs")["jobs"]
    assert names_it(group, document["createdAgain"])
    assert (document["state"], document["sent"], document["setAside"]) == ("unfinished", 0, 0)

    again = dlq_json(group, "redrive", "--yes")
    assert (again["sent"], again["inOtherJobs"], again["createdAgain"]) == (50, 0, None)
    assert sent(group) == exactly(range(100, 150))
    assert dlq_json(group, "cancel", job, "--yes")["state"] == "cancelled"
    assert dlq_json(group, "resume", again["job"])["sent"] == 50
    assert sent(group) == exactly(range(100, 150))


def test_while_a_job_runs(group: Group) -> None:
    """It stops at the next chunk, and says that nothing more was sent."""
    group.prepare()
    dead_letter(group, range(0, 400, 2))
    job = created(settings_of(group), JobOptions(group=group.name, rate=20))[1].id
    settings, problems = settings_of(group), list[str]()

    def run() -> None:
        try:
            OpenJob(settings, Ledger(settings), job).run(Event(), no_progress)
        except RedriveError as error:
            problems.append(str(error))

    thread = Thread(target=run)
    thread.start()
    until(lambda: sent(group).total() >= 5, "some are sent")
    make_again(group, range(1000, 1400, 2))
    thread.join(60)
    assert problems
    assert names_it(group, problems[0]), problems
    assert "nothing more was sent" in problems[0]
    assert max(sent(group)) < 1000
    assert refused(group, dlq(group, "resume", job))


def test_what_became_of_earlier_letters(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    """It is said of no other letter: the index and the topics agree, and `purge` removes none that was never sent."""
    group.prepare()
    dead_letter(group, range(LETTERS))
    group.worker()
    dlq_json(group, "redrive", "--yes", "--key", "k1", "--key", "k2")
    dlq_json(group, "discard", "--yes")
    until(lambda: all(job["unknown"] == 0 for job in dlq_json(group, "jobs")["jobs"]), "all outcomes are known")
    assert dlq_json(group, "purge", "--dry-run")["removed"] == LETTERS
    group.stop()

    make_again(group, range(100, 200))
    listed = dlq(group, "list", "--json")
    assert [(kind["state"], kind["letters"]) for kind in json.loads(listed.out)["kinds"]] == [("waiting", 100)]
    kinds = dlq_json(group, "summary", "--by", "state")["kinds"]
    assert [(kind["state"], kind["letters"]) for kind in kinds] == [("waiting", 100)]
    assert {json.loads(line)["state"] for line in dlq(group, "export").out.splitlines()} == {"waiting"}
    shown = dlq_json(group, "show", f"{group.dead_letters}-0@0")
    assert (shown["state"], shown["history"]) == ("waiting", [])
    reason = f"topic {group.dead_letters} was deleted and created again; what earlier jobs say is about other letters"
    assert caplog.messages.count(reason) == 1, "the index names it once"
    assert "0 dead letters removed" in dlq(group, "purge", "--yes").out
    assert len(group.cluster.read(group.dead_letters)) == 100
    assert dlq_json(group, "redrive", "--yes")["sent"] == 100


def test_purge(group: Group, answer: Answer) -> None:
    """Between the preview and the answer, and between the answer and the request to Kafka."""
    group.prepare()
    dead_letter(group, range(LETTERS))
    dlq_json(group, "discard", "--yes")
    settings = settings_of(group)
    with previewed(settings, JobOptions(group=group.name)) as (index, _):
        shown = Purge.of(settings, index)
    assert sum(each.letters for each in shown.chosen.values()) == LETTERS
    answer(lambda: make_again(group, range(100, 100 + LETTERS)))
    done = dlq(group, "purge")
    assert refused(group, done)
    assert "nothing was removed" in done.err
    assert len(group.cluster.read(group.dead_letters)) == LETTERS
    failed = shown.remove()
    assert set(failed) == {partition for partition, each in shown.chosen.items() if each.letters}
    assert all(names_it(group, reason) for reason in failed.values())
    assert len(group.cluster.read(group.dead_letters)) == LETTERS


def test_edit(group: Group) -> None:
    """The editor is open for minutes; another letter does not get the value."""
    group.prepare()
    dead_letter(group, range(2))
    name = f"{group.dead_letters}-0@0"
    editing = LetterEditing(settings_of(group), group.folder, name, JobOptions(group=group.name))
    make_again(group, range(100, 102))
    with pytest.raises(RedriveError) as raised:
        editing.create(editing.encode('{"n": 7, "do": ["ok"]}'))
    assert names_it(group, str(raised.value))
    assert dlq_json(group, "jobs")["jobs"] == []


def test_import(group: Group) -> None:
    """What a preview has found missing may be there now, or the other way round."""
    group.prepare()
    dead_letter(group, range(4))
    file = group.folder / "letters.jsonl"
    file.write_text(dlq(group, "export").out, encoding="utf-8")
    make_again(group, [])
    importing = Import(settings_of(group), group.name, file)
    assert len(importing.preview(no_progress).missing) == 4
    make_again(group, [])
    with pytest.raises(RedriveError) as raised:
        importing.run(Event(), no_progress)
    assert names_it(group, str(raised.value))
    assert group.cluster.read(group.dead_letters) == []
    assert dlq_json(group, "import", str(file), "--yes")["letters"] == 4


def test_a_job_of_another_cluster(group: Group) -> None:
    """A mirror copies the topic of the jobs: what was chosen in the other cluster is not sent, and not told here."""
    group.prepare()
    dead_letter(group, range(0, LETTERS, 2))
    listed = {SliceId(group.dead_letters, 0): OffsetSet(range(3))}
    options, settings = JobOptions(group=group.name), settings_of(group)
    here = Ledger(settings).topics.only([group.dead_letters])
    spec = JobSpec(
        job="mirrored", at_ms=1, by="me", seen=0, options=options, selection={}, slices=tuple(listed), topics=here
    )
    other = replace(spec, topics=replace(here, cluster="the-other"))
    unnamed = replace(spec, job="other", topics=TopicIds(cluster="the-other"))
    records = [*job_records(other, listed), *job_records(unnamed, listed)]
    group.cluster.produce(f"{group.name}.dlq.jobs", [Sent(value, key, (), 0) for key, value in records])
    for job in ("mirrored", "other"):
        done = dlq(group, "resume", job)
        assert done.code == 1
        assert "the cluster is another one: its id was the-other" in " ".join(done.err.split())
    assert sent(group) == exactly([])
    kinds = dlq_json(group, "summary", "--by", "state")["kinds"]
    assert [(kind["state"], kind["letters"]) for kind in kinds] == [("waiting", LETTERS // 2)]
    assert {json.loads(line)["state"] for line in dlq(group, "export").out.splitlines()} == {"waiting"}
    assert dlq_json(group, "redrive", "--yes")["sent"] == LETTERS // 2


def test_a_job_of_an_earlier_version(group: Group) -> None:
    """It has no ids, so that nothing is compared: it is sent as before."""
    group.prepare()
    dead_letter(group, range(0, LETTERS, 2))
    listed = {SliceId(group.dead_letters, 0): OffsetSet(range(LETTERS // 2))}
    options = JobOptions(group=group.name)
    spec = JobSpec(job="old", at_ms=1, by="me", seen=0, options=options, selection={}, slices=tuple(listed))
    records = job_records(spec, listed)
    group.cluster.produce(f"{group.name}.dlq.jobs", [Sent(value, key, (), 0) for key, value in records])
    assert dlq_json(group, "resume", "old")["sent"] == LETTERS // 2
    assert sent(group) == exactly(range(0, LETTERS, 2))
    make_again(group, range(0, LETTERS, 2))
    assert dlq_json(group, "redrive", "--dry-run")["sentBefore"] == LETTERS // 2


def test_another_systems_letters(group: Group) -> None:
    """The same without a configuration: a job sends nothing, and no later letter is one that died again."""
    other = Letters(group.cluster, f"{group.name}.dlt", ("topic=from",))
    group.cluster.create(group.output)

    def write(numbers: Iterable[int]) -> None:
        group.cluster.create(other.topic, partitions=2)
        headers = [("from", group.output.encode())]
        group.cluster.produce(other.topic, [Sent(b"%d" % n, b"k", headers, n % 2) for n in numbers])

    write(range(10))
    first = other.dlq_json("redrive", "--yes", "--create-topics", "--id", f"{other.topic}-0@0")
    assert first["sent"] == 1
    settings = OtherSystem(other.topic, {"bootstrap.servers": group.cluster.servers}, Recognition((("topic", "from"),)))
    job = created(settings, JobOptions(group=other.topic))[1].id
    marked = group.cluster.read(group.output)
    group.cluster.delete(other.topic)
    write(range(10))
    # The first letter again, and one that would be its second death if it were the same letter.
    group.cluster.produce(other.topic, [Sent(b"0", b"k", marked[0].headers, 1)])

    done = other.dlq("resume", job)
    assert done.code == 1
    assert f"topic {other.topic} was deleted and created again since" in " ".join(done.err.split())
    assert len(group.cluster.read(group.output)) == 1
    kinds = {(kind["state"], kind["letters"]) for kind in other.dlq_json("list")["kinds"]}
    assert {state for state, _ in kinds} == {"waiting"}
    assert other.dlq_json("purge", "--yes")["removed"] == 0


def test_in_the_console(group: Group) -> None:
    """Between a page and its form: redrive, discard, edit and purge say what has happened, and do nothing."""
    group.prepare()
    dead_letter(group, range(LETTERS))
    name = f"{group.dead_letters}-0@0"
    with console(group) as running, Browser(running) as browser:

        def is_listed(letters: int) -> bool:
            return f"{letters} letters" in text_of(browser.get("/letters"))

        until(lambda: is_listed(LETTERS), "the letters are there")
        paths = ("/redrive", "/discard", f"/letters/{name}/edit")
        forms = {path: _topics(browser.get(path)) for path in paths}
        make_again(group, range(100, 100 + LETTERS))
        until(lambda: _topics(browser.get("/redrive")) != forms["/redrive"], "the console sees the new topic")
        fields = {"expected": str(LETTERS), "number": str(LETTERS), "text": '{"n": 7}', "send": "yes"}
        for path, topics in forms.items():
            answer = browser.post(path, {**fields, "topics": topics}, 409)
            assert names_it(group, text_of(answer.text)), path
        assert dlq_json(group, "jobs")["jobs"] == []

        # A console that has not looked since: the topics say it.
        stale = _topics(browser.get("/redrive"))
        make_again(group, range(200, 200 + LETTERS))
        answer = browser.client.post(
            "/redrive", data={"csrf": browser.csrf(), **fields, "topics": stale}, headers={"Origin": running.address}
        )
        shown = answer.text if answer.status_code == 409 else browser.get(answer.headers["Location"])
        assert names_it(group, text_of(shown)), shown
        assert sent(group) == exactly([])

        assert dlq_json(group, "discard", "--yes")["setAside"] == LETTERS
        until(lambda: f"{LETTERS} letters to remove" in text_of(browser.get("/purge")), "they are done")
        topics = _topics(browser.get("/purge"))
        make_again(group, range(300, 300 + LETTERS))
        answer = browser.client.post(
            "/purge",
            data={"csrf": browser.csrf(), "number": str(LETTERS), "topics": topics},
            headers={"Origin": running.address},
        )
        shown = answer.text if answer.status_code == 409 else browser.get(answer.headers.get("Location", "/purge"))
        assert names_it(group, text_of(shown)), shown
        until(lambda: "deleted and created again since then" in text_of(browser.get("/audit")), "the trail says it")
    assert len(group.cluster.read(group.dead_letters)) == LETTERS


def _topics(page: str) -> str:
    found = re.search(r'name="topics" value="([^"]*)"', page)
    assert found, page
    return unescape(found[1])


def test_the_topics_of_the_jobs(group: Group) -> None:
    """They may be created again, too: a console that runs on forgets the jobs that it has read, and reads new ones."""
    group.prepare()
    dead_letter(group, range(4))
    dlq_json(group, "discard", "--yes")
    ledger = Ledger(settings_of(group))
    assert len(ledger.jobs.jobs) == 1
    for name in ("jobs", "actions"):
        group.cluster.delete(f"{group.name}.dlq.{name}")
    group.apply()
    ledger.refresh()
    assert not ledger.jobs.jobs
    assert dlq_json(group, "redrive", "--yes")["sent"] == 4
    ledger.refresh()
    (job,) = ledger.jobs.jobs
    assert sum(ledger.actions.slice(job, number).sent for number in range(2)) == 4
