"""Dead letters are sent again, each exactly once, and it is known what became of them."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

import pytest

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.creation import create
from kafka_redelivery.dead_letters.jobs import OpenJob
from kafka_redelivery.dead_letters.ledger import Ledger
from kafka_redelivery.dead_letters.letter import Selection
from kafka_redelivery.dead_letters.reading import no_progress
from kafka_redelivery.topology.redrive.job import JobOptions
from tests.scenarios.letters import emptied, now_ms
from tests.scenarios.redriving import created, dead_letter, died, dlq, dlq_json, previewed, sent, settings_of
from tests.scenarios.running import Group, exactly, number
from tests.scenarios.waiting import LONG_S, until

pytestmark = pytest.mark.kafka

_POLICY = {"redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 0, "redeliveryDelay": 0}}


def test_the_cause_is_fixed_and_the_letters_are_sent_again(group: Group) -> None:
    """Each recovers or dies again exactly once, the story of each is known, and a record cannot loop for ever."""
    group.prepare(policyEntry=_POLICY)
    fixed = group.folder / "fixed"
    group.send([[f"until {fixed}"]] * 10 + [["reject"], ["raise", "raise"]])
    group.worker()
    until(lambda: group.dead() == exactly(range(12)), "all are dead")
    source = group.cluster.ends(group.source)
    kinds = {(kind["reason"], kind["state"], kind["letters"]) for kind in dlq_json(group, "list")["kinds"]}
    assert kinds == {("redeliveries_exceeded", "waiting", 11), ("rejected", "waiting", 1)}

    fixed.touch()
    first = dlq_json(group, "redrive", "--yes")
    assert (first["state"], first["sent"]) == ("done", 12)
    until(lambda: dlq_json(group, "jobs")["jobs"][0]["unknown"] == 0, "all outcomes are known")
    (job,) = dlq_json(group, "jobs")["jobs"]
    assert (job["recovered"], job["deadAgain"]) == (10, 2)
    assert group.outputs() == exactly(range(10))
    assert sent(group) == exactly(range(12))
    assert group.cluster.ends(group.source) == source
    copies = [record for record in group.cluster.read(group.ready) if record.header("redrive")]
    assert all(str(record.header("redrive")).startswith(f"{job['job']}/") for record in copies)
    fresh = [record for record in copies if record.header("JMSXDeliveryCount") == "0"]
    assert all(record.header("dlqDeliveryFailureCause") is None for record in fresh)
    counts = [(n, record.header("JMSXDeliveryCount")) for record in copies for n in [number(record)]]
    assert sorted(counts) == sorted([*((n, "0") for n in range(12)), (11, "1")]), "attempts did not begin anew"

    # Only those that died again are left. Each carries how often it was sent; the limit parks them.
    left = dlq_json(group, "list", "--each", "--state", "waiting")["each"]
    assert sorted((letter["reason"], letter["redrives"]) for letter in left) == [
        ("redeliveries_exceeded", 1),
        ("rejected", 1),
    ]
    again = dlq_json(group, "redrive", "--yes", "--max-redrives", "1")
    assert (again["sent"], again["parked"]) == (0, 2)
    assert sent(group, f"{group.name}.dlq.parked") == exactly([10, 11])
    assert dlq_json(group, "redrive", "--yes")["job"] is None
    shown = dlq_json(group, "show", left[0]["id"])
    assert [step["state"] for step in shown["history"]] == ["parked"]
    assert shown["headers"]["_AMQ_ORIG_QUEUE"] == group.name
    group.stop()
    assert dlq_json(group, "purge", "--yes")["removed"] == 14
    assert emptied(group)


def test_what_is_selected_and_refused(group: Group) -> None:
    """A preview changes nothing, other groups' letters and expired ones stay, and a source is never a target."""
    group.prepare(policyEntry=_POLICY)
    dead_letter(group, range(8))
    others = f"{group.name}-others"
    group.cluster.produce(group.dead_letters, [died(group, 8, of=others), died(group, 9, expires_ms=now_ms() - 1000)])
    previewed = dlq_json(group, "redrive", "--dry-run", "--rate", "2")
    assert (previewed["letters"], previewed["expired"], previewed["seconds"]) == (8, 1, 4.0)
    assert previewed["targets"] == {group.ready: 8}
    fingerprint = dlq_json(group, "show", f"{group.dead_letters}-0@0")["fingerprint"]
    for arguments, expected in (
        (["--origin", "*.in"], 8),
        (["--fingerprint", fingerprint], 8),
        (["--fingerprint", "0" * 16], 0),
        (["--origin", "other"], 0),
        (["--exception", "Connection*", "--key", "k3"], 1),
        (["--header", "traceparent=00-5"], 1),
        (["--since", "1h"], 8),
        (["--until", "2020-01-01"], 0),
        (["--id", f"{group.source}-1@3", "--id", f"{group.dead_letters}-0@0"], 2),
    ):
        assert dlq_json(group, "redrive", "--dry-run", *arguments)["letters"] == expected, arguments
    assert "is a source of group" in dlq_json(group, "redrive", "--yes", "--to", group.source, code=1)["message"]
    assert "--of-group" in dlq_json(group, "redrive", "--yes", "--ready", group.output, code=1)["message"]
    assert f"{others}.dlq.jobs" in dlq_json(group, "redrive", "--yes", "--of-group", others, code=1)["message"]
    group.cluster.create(f"{others}.dlq.jobs", f"{others}.dlq.actions")
    assert "--ready" in dlq_json(group, "redrive", "--yes", "--of-group", others, code=1)["message"]
    assert dlq(group, "redrive").code == 2, "there is no terminal to ask on"
    assert sent(group) == exactly([])
    assert dlq_json(group, "jobs")["jobs"] == []
    assert dlq_json(group, "purge", "--yes")["removed"] == 0
    assert len(group.cluster.read(group.dead_letters)) == 10

    theirs = f"{group.name}.theirs"
    group.cluster.create(theirs)
    first = dlq_json(group, "redrive", "--yes", "--of-group", others, "--ready", theirs)
    assert first["sent"] == 1
    (record,) = until(lambda: group.cluster.read(theirs), "it can be read")
    assert record.header("_AMQ_ORIG_QUEUE") == others
    # It is a job of that group: its own operators see it, and leave the letter out.
    assert dlq_json(group, "jobs")["jobs"] == []
    for named in (["--of-group", others], ["--set", f"group={others}"]):
        assert [job["job"] for job in dlq_json(group, "jobs", *named)["jobs"]] == [first["job"]], named
        assert dlq_json(group, "redrive", "--dry-run", *named)["sentBefore"] == 1, named
        assert dlq_json(group, "resume", first["job"], *named)["sent"] == 1, named
    assert sent(group) == exactly([])

    once = dlq_json(group, "redrive", "--yes", "--key", "k3", "--to", group.output)
    assert once["sent"] == 1
    (record,) = until(lambda: group.cluster.read(group.output), "it can be read")
    assert (json.loads(record.value or b"")["n"], record.key, record.header("redrive")) == (3, b"k3", None)
    assert dlq_json(group, "redrive", "--dry-run")["sentBefore"] == 1
    assert dlq_json(group, "redrive", "--dry-run", "--again", "--state", "sent")["letters"] == 1
    assert "k3" in dlq(group, "list", "--each").out
    # It stays unknown what becomes of it, so a person may set it aside.
    assert dlq_json(group, "discard", "--dry-run", "--key", "k3")["letters"] == 0
    assert dlq_json(group, "discard", "--yes", "--key", "k3", "--state", "sent")["setAside"] == 1
    assert dlq_json(group, "list", "--key", "k3", "--state", "discarded")["letters"] == 1

    (line,) = dlq(group, "export", "--key", "k5").out.splitlines()
    exported = json.loads(line)
    assert json.loads(base64.b64decode(exported["value"])) == {"n": 5, "do": ["ok"]}
    assert ["traceparent", base64.b64encode(b"00-5").decode()] in exported["headers"]
    discarded = dlq_json(group, "discard", "--yes", "--key", "k5")
    assert (discarded["state"], discarded["setAside"], discarded["sent"]) == ("done", 1, 0)
    assert dlq_json(group, "list", "--state", "discarded")["letters"] == 2
    assert dlq_json(group, "redrive", "--dry-run")["sentBefore"] == 2
    assert sent(group) == exactly([])


def test_ids_that_no_letter_has(group: Group) -> None:
    """The letters of the others are exported and sent; the ids are named, and the exit code says it."""
    group.prepare()
    dead_letter(group, range(2))
    unknown = f"{group.dead_letters}-0@999"
    given = ["--id", f"{group.source}-0@0", "--id", unknown]
    exported = dlq(group, "export", *given)
    assert (exported.code, json.loads(exported.out)["id"]) == (1, f"{group.dead_letters}-0@0")
    assert unknown in exported.err
    for words in (["export", "--dry-run"], ["redrive", "--dry-run"], ["redrive", "--yes"]):
        found = dlq_json(group, *words, *given, code=1)
        assert (found["ok"], found["letters"], found["unknownIds"]) == (False, 1, [unknown]), words
    assert dlq_json(group, "redrive", "--yes", "--id", unknown, code=1)["letters"] == 0
    assert sent(group) == exactly([0])


@pytest.mark.long
def test_two_operators_press_the_same_button(group: Group) -> None:
    """A letter belongs to the first job that lists it, and is sent once, also by two processes at the same time."""
    group.prepare(policyEntry=_POLICY)
    dead_letter(group, range(200))
    settings, options = settings_of(group), JobOptions(group=group.name, rate=400)
    some = Selection(keys=("k0", "k1", "k2"))
    first, second = Ledger(settings), Ledger(settings)
    with previewed(settings, options, some) as (index, chosen), previewed(settings, options) as (later, all_chosen):
        own = create(first, index, chosen)
        others = create(second, later, all_chosen)  # did not know the first job
    numbers = [sum(map(len, job.owned)) for job in (own, others)]
    assert numbers == [chosen.total, 200 - chosen.total]

    opened = [OpenJob(settings, ledger, job.id) for ledger, job in ((first, own), (second, others))]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda each: each.run(Event(), no_progress), opened)) == [True, True]
    assert sent(group) == exactly(range(200))
    ids = [record.header("_AMQ_ORIG_MESSAGE_ID") or "" for record in group.cluster.read(group.ready)]
    order = [int(name.rpartition("@")[2]) for name in ids]
    by_key = {key: [n for n in order if n % 7 == key and n % 2 == 0] for key in range(7)}
    assert all(numbers == sorted(numbers) for numbers in by_key.values()), "sent in another order than they died"


def test_two_processes_on_one_job(group: Group) -> None:
    """The newer one takes over; the older one ends, and every letter is sent once."""
    taken_over = Event()

    def wait_for_the_newer(_done: int, _total: int) -> None:
        taken_over.wait(LONG_S)  # otherwise the older one could be done before

    def take_over(_done: int, _total: int) -> None:
        taken_over.set()

    group.prepare(policyEntry=_POLICY)
    dead_letter(group, range(200))
    settings, options = settings_of(group), JobOptions(group=group.name, rate=100)
    ledger, job = created(settings, options)
    group.cluster.delete_before(group.dead_letters, 1, 1)  # letter 1 expires, or is deleted by hand
    with ThreadPoolExecutor(1) as pool:
        older = pool.submit(OpenJob(settings, ledger, job.id).run, Event(), wait_for_the_newer)
        until(lambda: sent(group), "the first letters are sent")
        newer = Ledger(settings)
        assert OpenJob(settings, newer, job.id).run(Event(), take_over)
        with pytest.raises(RedriveError):
            older.result()
    assert sent(group) == exactly(set(range(200)) - {1})
    (found,) = dlq_json(group, "jobs")["jobs"]
    assert (found["state"], found["sent"], found["gone"]) == ("done", 199, 1)


@pytest.mark.long
def test_a_job_is_cancelled_while_it_runs(group: Group) -> None:
    """What is sent stays sent; the rest is free for the next job, and every letter is sent once."""
    group.prepare(policyEntry=_POLICY)
    dead_letter(group, range(100))
    settings, options = settings_of(group), JobOptions(group=group.name, rate=20)
    ledger, job = created(settings, options)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(OpenJob(settings, ledger, job.id).run, Event(), no_progress)
        until(lambda: sent(group), "the first letters are sent")
        cancelled = dlq_json(group, "cancel", job.id[:6], "--yes")
        running.result()
    assert cancelled["state"] == "cancelled"
    already = cancelled["sent"]
    assert 0 < already == sent(group).total() < 100
    assert dlq_json(group, "resume", job.id, code=1)["sent"] == already, "a cancelled job goes on"
    assert dlq_json(group, "redrive", "--yes")["sent"] == 100 - already
    assert sent(group) == exactly(range(100))


def test_large_headers(group: Group) -> None:
    """They count like values: a transaction has about 8 MiB, not 500 letters with a megabyte of headers each."""
    group.prepare()
    large = ("note", b"x" * 900_000)
    letters = [died(group, 2 * n) for n in range(20)]
    group.cluster.produce(group.dead_letters, [replace(each, headers=[*each.headers, large]) for each in letters])
    assert dlq_json(group, "redrive", "--yes")["sent"] == 20
    group.cluster.wait_for_markers(f"{group.name}.dlq.actions")
    written = [json.loads(each.value or b"") for each in group.cluster.read(f"{group.name}.dlq.actions")]
    assert [each["sent"] for each in written if each["type"] == "progress"] == [9, 9, 2]
