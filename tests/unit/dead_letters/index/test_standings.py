"""The index finds where each letter stands, whenever it reads which records."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_redelivery.dead_letters.index.facts import action_rows, actions_table
from kafka_redelivery.dead_letters.index.files import IndexFolder, Manifest
from kafka_redelivery.dead_letters.index.rows import table_of
from kafka_redelivery.dead_letters.index.store import Store
from kafka_redelivery.dead_letters.letter import By, LetterState, Selection, Standing
from kafka_redelivery.topology.errors import RedriveRecordError
from kafka_redelivery.topology.redrive.actions import (
    Action,
    ActionLog,
    ChunkProgress,
    End,
    Outcome,
    doubt_of,
    outcome_record,
    progress_record,
    read_action,
)
from kafka_redelivery.topology.redrive.job import JobLog, JobOptions, JobSpec, SliceId, job_records
from kafka_redelivery.topology.redrive.offset_set import OffsetSet
from kafka_redelivery.topology.redrive.records import StoredRecord
from kafka_redelivery.topology.redrive.topic_ids import TopicIds
from kafka_redelivery.topology.wire.headers import RedriveMark
from tests.examples import share
from tests.unit.dead_letters.index.stored import BASIS, SLOTS, TOPIC, batch_of, rows_of
from tests.unit.dead_letters.index.test_selecting import LETTERS, opened
from tests.unit.dead_letters.model import Standings

OFFSETS = 2
"""The last offset: few, so that records meet in the same letter."""
_SLICES = (SliceId(TOPIC, 0), SliceId(TOPIC, 1), SliceId("DLQ.elsewhere", 0))

_letters = st.dictionaries(st.sampled_from(_SLICES), st.frozensets(st.integers(0, OFFSETS), min_size=1), min_size=1)
_some = st.sampled_from([(), (), (), (0,), (1,), (0, 2)])
_chunks = st.builds(
    ChunkProgress,
    through=st.sampled_from([-1, 0, 1, OFFSETS, OFFSETS]),
    sent=st.sampled_from([0, 1, 1, 2, OFFSETS + 1]),
    gone=_some,
    parked=_some,
    set_aside=_some,
    refused=_some.map(lambda offsets: dict.fromkeys(offsets, "too large")),
    end=st.sampled_from([None, None, End.DONE, End.CANCELLED]),
)
_jobs = st.sampled_from(["a", "a", "b", "c", "d"])


@st.composite
def _actions(draw: st.DrawFn) -> StoredRecord:
    job, number = draw(_jobs), draw(st.sampled_from([0, 0, 1, 2]))
    match draw(st.integers(0, 15)):
        case 0 | 1 | 2 | 3:
            return progress_record(job, number, draw(_chunks), 1)
        case 4:
            kind = draw(st.sampled_from(["progress", "outcome", "else"]))
            return StoredRecord(f"{job}/{number}".encode(), b'{"version":9,"type":"%s"}' % kind.encode())
        case _:
            pass
    return outcome_record(RedriveMark(job, number, draw(st.integers(0, OFFSETS)), 1), draw(st.sampled_from(Outcome)), 1)


def _job(
    name: str, seen: int, letters: dict[SliceId, frozenset[int]], topics: TopicIds | None = None
) -> list[StoredRecord]:
    spec = JobSpec(
        job=name,
        at_ms=1,
        by="me",
        seen=seen,
        options=JobOptions(group="billing"),
        selection={},
        slices=tuple(sorted(letters)),
        topics=topics or TopicIds(),
    )
    return list(job_records(spec, {each: OffsetSet(offsets) for each, offsets in letters.items()}))


_topics = st.sampled_from([TopicIds(), *(TopicIds(cluster="c", ids={TOPIC: each}) for each in ("t", "before"))])


@settings(max_examples=share(40), deadline=None)
@given(
    st.lists(st.tuples(_letters, st.integers(0, 3), _topics), max_size=4),
    st.lists(_actions(), max_size=25),
    st.data(),
)
def test_the_index_and_the_ledger_agree(
    wanted: list[tuple[dict[SliceId, frozenset[int]], int, TopicIds]],
    actions: list[StoredRecord],
    data: st.DataObject,
) -> None:
    """Jobs whose authors knew some of the jobs before, and actions in any order, in one refresh or in several.

    Some actions cannot be read, and some jobs are from before the topic was created again.
    """
    log, ledger, positions = JobLog(), ActionLog(), [0]
    written: list[list[tuple[int, StoredRecord]]] = []
    for name, (letters, unknown, topics) in zip("abcd", wanted, strict=False):
        seen = positions[max(0, len(positions) - 1 - unknown)]
        records = [(positions[-1] + at, record) for at, record in enumerate(_job(name, seen, letters, topics))]
        positions.append(positions[-1] + len(records) + 1)  # the marker of the transaction
        written.append(records)
    for offset, (key, value) in (each for records in written for each in records):
        log.add(offset, key, value)
    log.settle()
    for job in log.jobs.values():  # some slices are whole, whatever others say of them
        for number, owned in enumerate(job.owned):
            if data.draw(st.booleans()):
                at = data.draw(st.integers(0, len(actions)))
                chunk = ChunkProgress(through=OFFSETS, sent=len(owned), end=End.DONE)
                actions.insert(at, progress_record(job.id, number, chunk, 1))
    for key, value in actions:
        with suppress(RedriveRecordError):
            ledger.add(key, value)
    standings = Standings(log, ledger, TopicIds(cluster="c", ids={TOPIC: "t"}))

    cuts = data.draw(st.lists(st.tuples(st.integers(0, len(written)), st.integers(0, len(actions))), max_size=3))
    jobs_at, actions_at = sorted(cut for cut, _ in cuts), sorted(cut for _, cut in cuts)
    found, histories = _refreshed(
        [written[a:b] for a, b in zip([0, *jobs_at], [*jobs_at, len(written)], strict=True)],
        [actions[a:b] for a, b in zip([0, *actions_at], [*actions_at, len(actions)], strict=True)],
    )
    for slot in SLOTS:
        for offset in range(OFFSETS + 1):
            expected = standings.of(slot.topic, slot.partition, offset)._replace(reason="")
            assert found.get((slot.number, offset), Standing()) == expected, (slot.partition, offset)
    for place, steps in histories.items():
        assert steps == standings.history(TOPIC, *place), place


def _read(key: bytes, value: bytes) -> Action | None:
    try:
        return read_action(key, value)
    except RedriveRecordError:
        return doubt_of(key, value)


def _refreshed(
    jobs: list[list[list[tuple[int, StoredRecord]]]], actions: list[list[StoredRecord]]
) -> tuple[dict[tuple[int, int], Standing], dict[tuple[int, int], list[Standing]]]:
    """Bring an index up to date with some jobs and actions at a time; return where letters stand, and stood before."""
    with TemporaryDirectory() as folder:
        index = IndexFolder(Path(folder) / "index")
        store = Store(index)
        manifest = Manifest(basis=BASIS, slots=SLOTS)
        log = JobLog()
        for some_jobs, some_actions in zip(jobs, actions, strict=True):
            facts = manifest.facts
            for offset, (key, value) in (each for records in some_jobs for each in records):
                log.add(offset, key, value)
            log.settle()
            read = [found for found in (_read(*each) for each in some_actions) if found is not None]
            rows = list(action_rows(read, facts.sequence))
            files = (*facts.action_files, store.write("actions", [actions_table(rows)])) if rows else facts.action_files
            facts = replace(
                facts,
                sequence=facts.sequence + len(rows),
                action_files=store.merged("actions", files),
                owned_file=store.owned(log.jobs.values()),
            )
            manifest = replace(manifest, facts=facts)
        standings = store.standings(manifest)
        index.publish(replace(manifest, standings_file=standings))
        reader = opened(index)
        rows_found = reader.rows('SELECT slot, "offset", state, job, sends FROM standings')
        histories = {(0, offset): reader.history(TOPIC, 0, offset) for offset in (0, OFFSETS)}  # each takes a while
        reader.close()
        store.close()
        return {(slot, offset): Standing(*rest) for slot, offset, *rest in rows_found}, histories


def test_the_last_outcome_and_the_first_reason_count() -> None:
    """As in the ledger: a letter of which several are said."""
    (job,) = [_job("a", 0, {_SLICES[0]: frozenset({0, 1, 2})})]
    written = list(enumerate(job))
    said = ChunkProgress(
        through=2, sent=1, gone=(1,), parked=(1, 2), set_aside=(1, 2), refused={1: "too large", 2: "too large"}
    )
    outcomes = [Outcome.DEAD_AGAIN, Outcome.RECOVERED, Outcome.EXPIRED]
    actions = [
        progress_record("a", 0, said, 1),
        *(outcome_record(RedriveMark("a", 0, 0, 1), outcome, 1) for outcome in outcomes),
    ]
    for cut in range(len(actions) + 1):
        found, _ = _refreshed([[written], []], [actions[:cut], actions[cut:]])
        assert [found[0, offset].state for offset in range(3)] == ["expired", "gone", "parked"]


def test_a_kind_has_what_was_sent_also_if_only_the_others_are_meant(tmp_path: Path) -> None:
    """Else of letters that need a decision none would ever have been sent, although a redrive was in vain."""
    records = _job("a", 0, {_SLICES[0]: frozenset({0, 2})})
    log = JobLog()
    for offset, (key, value) in enumerate(records):
        log.add(offset, key, value)
    log.settle()
    outcomes = [Outcome.RECOVERED, Outcome.DEAD_AGAIN]
    actions = [
        progress_record("a", 0, ChunkProgress(through=2, sent=2), 1),
        *(outcome_record(RedriveMark("a", 0, at, 1), outcome, 1) for at, outcome in enumerate(outcomes)),
    ]
    folder = IndexFolder(tmp_path / "index")
    store = Store(folder)
    letters = store.write("letters", [table_of(rows_of().columns(batch_of(LETTERS[:6])))])
    read = [found for found in (_read(*each) for each in actions) if found is not None]
    rows = list(action_rows(read, 0))
    facts = Manifest(basis=BASIS).facts
    facts = replace(
        facts,
        sequence=len(rows),
        action_files=(store.write("actions", [actions_table(rows)]),),
        owned_file=store.owned(log.jobs.values()),
    )
    manifest = Manifest(basis=BASIS, slots=SLOTS, letter_files=(letters,), facts=facts)
    folder.publish(replace(manifest, standings_file=store.standings(manifest)))
    store.close()
    index = opened(folder)
    waiting = index.condition(Selection(states=(LetterState.WAITING,)))
    [found] = index.summary((By.GROUP,), waiting).rows
    index.close()
    assert (found.letters, found.sent, found.recovered) == (4, 2, 1)
