"""What someone who may write to a topic could try, and what each attempt achieves.

docs/reference/attacks.md has these texts as a table (``./dev docs --write``). The attempts are made in
``test_attacks.py``, ``test_attacks_on_jobs.py``, ``test_attacks_on_actions.py``, ``test_unreadable_records.py`` and
``test_foreign_letters.py``.
"""

from enum import StrEnum
from typing import Final, NamedTuple


class Attack(StrEnum):
    """An attempt."""

    HEADERS = "all headers of retries and dead letters: count, due time, origin, cause"
    EXPIRED = "`JMSExpiration` in the past"
    EXPIRATION = "`JMSExpiration` that is no number"
    MODE = "`JMSDeliveryMode: NON_PERSISTENT`"
    KEY = "escape sequences, markup and line breaks as key"
    REDELIVERY = "a redelivery that names any record of the source"
    READY_MARK = "a redelivery with a header `redrive` that names a letter"
    COUNT = "a delivery count above the limit"
    POSITION = "an origin that no Kafka has, or of ten kilobytes"
    DUPLICATE = "a redelivery that fails and names a record that will fail"
    BARE = "a record without our headers"
    FAR = "a due time in the year 2100"
    EARLY = "a due time in the past"
    ORIGIN = "an origin that is no source of the group"
    LETTER = "a dead letter"
    FOREIGN = "a value that is not ours"
    SAVED = "a saved position of a partition without a committed offset"
    PAUSE = "a pause"
    OUTCOMES = "outcomes of any record"
    MARK = "a header `redrive` that says how often the record was sent again"
    UNSENT = "an outcome of a letter that no job has sent"
    SENT_OUTCOME = "an outcome of a letter that was sent"
    MISFIT = "progress of a job that does not fit its letters"
    FITTING = "progress of a job that fits its letters, and outcomes of these"
    GARBAGE = "bytes that are no dead letter"
    UNREADABLE_JOB = "a record of another version, or with a damaged field"
    UNREADABLE_ACTION = "progress of another version, or with a damaged field"
    PARKED = "any record"
    MORE = "another specification of a job, or more letters for it"
    CANCEL = "a cancellation"
    REMOVED = "(with the right Delete) the removal of records"
    FOREIGN_MARK = "a header `redrive` that names a letter of a job"
    DEPUTY = "a job that reads another topic, or writes to a source, a dead-letter topic or an internal one"


class Effect(NamedTuple):
    """Where an attempt is made, and what it achieves."""

    topic: str
    effect: str


EFFECTS: Final = {
    Attack.HEADERS: Effect("source", "nothing: they are replaced"),
    Attack.EXPIRED: Effect("source", "the record itself expires: a dead letter with reason `expired`"),
    Attack.EXPIRATION: Effect("source", "nothing: the record does not expire"),
    Attack.MODE: Effect(
        "source", "its own dead letter says so; `activemq` without `processNonPersistent` drops it, as Classic does"
    ),
    Attack.KEY: Effect("source", "nothing: they are escaped where people read them"),
    Attack.REDELIVERY: Effect("ready", "the handler is called, as for that record; the journal has an outcome of it"),
    Attack.READY_MARK: Effect(
        "ready", "its outcome counts as that of the letter, **if a job has sent it**: as Write on `{group}.dlq.actions`"
    ),
    Attack.COUNT: Effect("ready", "a dead letter without a delivery"),
    Attack.POSITION: Effect("ready", "a dead letter with reason `bad_headers`"),
    Attack.DUPLICATE: Effect("ready", "**the dead letter of that record is dropped** as a duplicate (`enableAudit`)"),
    Attack.BARE: Effect("ready, tier", "a dead letter with reason `bad_headers`"),
    Attack.FAR: Effect("tier", "the record waits until then; those behind it do not"),
    Attack.EARLY: Effect("tier", "the record is released at once"),
    Attack.ORIGIN: Effect("tier", "a dead letter with reason `undeliverable`"),
    Attack.LETTER: Effect("dead letters", "it is counted and archived like others; a redrive gives it to the handler"),
    Attack.FOREIGN: Effect(
        "control",
        "**no process starts**, and the error names the record; in running ones partitions without a committed offset "
        "wait",
    ),
    Attack.SAVED: Effect("control", "**the partition starts there**; records before it are not handled"),
    Attack.PAUSE: Effect(
        "control", "**the group waits** until `redelivery resume`; `redelivery status` shows the pause"
    ),
    Attack.OUTCOMES: Effect("journal", "audit and report count them; no worker or scheduler reads the journal"),
    Attack.MARK: Effect("dead letters", "a redrive moves the letter to the parking topic"),
    Attack.UNSENT: Effect("`{group}.dlq.actions`", "nothing: it does not count"),
    Attack.SENT_OUTCOME: Effect(
        "`{group}.dlq.actions`",
        "the letter has that state: **a purge removes it**, a redrive sends it with `--again` only",
    ),
    Attack.MISFIT: Effect(
        "`{group}.dlq.actions`",
        "its letters are `sent`, without an outcome: a purge keeps them, a redrive sends them with `--again` only; "
        "`dlq resume` refuses the job, and it fails",
    ),
    Attack.FITTING: Effect(
        "`{group}.dlq.actions`", "**the letters are not sent, count as recovered, and a purge removes them**"
    ),
    Attack.GARBAGE: Effect(
        "dead letters",
        "nothing: they are counted as `unreadable`, and are not sent; `purge` and expiration stop before them, as "
        "before letters of others",
    ),
    Attack.UNREADABLE_JOB: Effect(
        "`{group}.dlq.jobs`",
        "the commands name it and go on; the job that its key names is not sent, keeps its letters, and can be "
        "cancelled",
    ),
    Attack.UNREADABLE_ACTION: Effect(
        "`{group}.dlq.actions`",
        "the commands name it and go on; the letters of the slice that its key names are `sent`, without an outcome",
    ),
    Attack.PARKED: Effect("`{group}.dlq.parked`", "nothing: no command reads the topic"),
    Attack.MORE: Effect(
        "`{group}.dlq.jobs`",
        "nothing; added letters belong to the job, and `dlq resume` sends them if it has not ended",
    ),
    Attack.CANCEL: Effect("`{group}.dlq.jobs`", "the job ends when it goes on; its unsent letters are free"),
    Attack.REMOVED: Effect(
        "`{group}.dlq.jobs`, `{group}.dlq.actions`",
        "**letters of removed jobs wait again**, and those of removed actions are in their job, so both can be sent "
        "twice; the index says the same",
    ),
    Attack.FOREIGN_MARK: Effect(
        "source of [another system](../other-systems.md)",
        "a letter that was sent and has the same key and value is `dead_again`, and one without content whose record "
        "is gone; no other one",
    ),
    Attack.DEPUTY: Effect("`{group}.dlq.jobs`", "nothing: `dlq resume` refuses it, `dlq cancel` ends it"),
}
