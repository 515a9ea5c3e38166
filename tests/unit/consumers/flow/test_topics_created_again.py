"""Where a partition starts whose topic was deleted and created again."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from kafka_redelivery.consumers.flow.first_offsets import FirstOffsets
from kafka_redelivery.topology.wire.control import ControlState
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.topology.wire.topic_mark import marked, topic_mark
from kafka_redelivery.transport.clients.topic_watch import FoundTopic
from kafka_redelivery.transport.protocols import Partition
from tests.unit.consumers.doubles import StoredOffsets
from tests.unit.consumers.flow.test_first_offsets import ADDED, OLD, READY, Known

OLDER, PRESENT, ELSEWHERE = (topic_mark(c, 22 * t) for c, t in (("here", "o"), ("here", "p"), ("there", "o")))


class Topics:
    """Topics of which each has three partitions, and this mark."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.partitions = 3

    def look(self, topics: Iterable[str]) -> Mapping[str, FoundTopic]:
        return dict.fromkeys(topics, FoundTopic(self.partitions, self.mark))

    def poll(self, topics: Iterable[str], _known: Mapping[str, FoundTopic]) -> Mapping[str, FoundTopic]:
        return self.look(topics)


def noticed(first: FirstOffsets, *owned: Partition) -> list[Partition]:
    """The partitions to restart after two equal answers."""
    first.changed(["orders"], owned)
    return first.changed(["orders"], owned)


def of_topic(state: ControlState, topics: Topics, commits: dict[Partition, Checkpoint]) -> FirstOffsets:
    """First offsets with ``latest`` of a group at level 3 that has read its control topic."""
    control = Known(replace(state, exists=True, level=3))
    control.read()
    reader = StoredOffsets(commits, ends=dict.fromkeys((OLD, ADDED, READY), (3, 90)))
    return FirstOffsets(reader, "latest", control, topics)


@pytest.mark.parametrize("saved", [{OLD: Checkpoint(40, "")}, {}])
def test_what_was_saved_or_born_in_an_older_topic_is_void(
    saved: dict[tuple[str, int], Checkpoint], caplog: pytest.LogCaptureFixture
) -> None:
    """Its log start is the first offset, also with ``latest``. One warning says so."""
    state = ControlState(sources={"orders": 3}, committed={OLD: 40}, saved=saved, marks={OLD: OLDER, "orders": OLDER})
    first = of_topic(state, Topics(PRESENT), {})
    for owned in ((), (OLD,)):
        assert first.positions([OLD], owned) == {OLD: None}
        assert first.expired(OLD) is None
        assert first.source(OLD) == (3, False)
    assert first.new_progress(OLD, 3).checkpoint() == Checkpoint(3, marked(PRESENT, ""))
    [line] = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert "topic orders was deleted and created again: the group had read partition 1 (to offset 40)" in line


@pytest.mark.parametrize("born", [{OLD: 40}, {}])
def test_an_offset_that_was_committed_in_an_older_topic_is_void(born: dict[tuple[str, int], int]) -> None:
    """A process that has not noticed the new topic commits its position by name, also after another one was noted."""
    state = ControlState(committed=born, marks=dict.fromkeys(born, PRESENT))
    first = of_topic(state, Topics(PRESENT), {OLD: Checkpoint(40, marked(OLDER, "p1:x")), READY: Checkpoint(5, "")})
    assert first.positions([OLD, READY]) == {OLD: None, READY: Checkpoint(5, "")}
    assert first.expired(OLD) is None
    assert first.source(OLD) == (3, False)


@pytest.mark.parametrize("mark", [PRESENT, ELSEWHERE, ""])
def test_what_is_not_known_to_be_of_an_older_topic_holds(mark: str) -> None:
    """In particular in another cluster, to which a mirror has copied topics and offsets."""
    state = ControlState(committed={OLD: 40}, marks={OLD: mark} if mark else {})
    first = of_topic(state, Topics(PRESENT), {READY: Checkpoint(5, marked(mark, ""))})
    assert first.positions([OLD, READY])[READY] == Checkpoint(5, marked(mark, ""))
    assert first.expired(OLD) == (3, 87)


def test_brokers_without_ids_are_believed_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A position that lies outside the log halts its partition when it is read."""
    state = ControlState(committed={OLD: 40}, saved={OLD: Checkpoint(40, "")}, marks={OLD: OLDER})
    first = of_topic(state, Topics(""), {})
    assert first.positions([OLD]) == {OLD: Checkpoint(40, "")}
    assert "whether that was in this topic, or in an older one of its name, is unknown" in caplog.text
    assert first.new_progress(OLD, 3).checkpoint() == Checkpoint(3, "")


def test_an_offset_of_the_new_topic_that_has_expired_halts_again() -> None:
    """That there was an older topic does not make the records of the new one new."""
    state = ControlState(committed={OLD: 40}, former={OLD: 7}, marks={OLD: PRESENT})
    first = of_topic(state, Topics(PRESENT), {})
    first.positions([OLD])
    assert first.expired(OLD) == (3, 87)


def test_a_topic_that_is_created_again_is_opened_again() -> None:
    """Then an offset that names no topic is void, too: this process has committed it in the older topic."""
    topics = Topics(OLDER)
    first = of_topic(ControlState(), topics, {OLD: Checkpoint(40, "")})
    assert first.positions([OLD]) == {OLD: Checkpoint(40, "")}
    assert noticed(first, OLD, READY) == []
    topics.mark = PRESENT
    assert noticed(first, OLD, READY) == [OLD]
    first.close(OLD)
    assert first.positions([OLD]) == {OLD: None}
    assert noticed(first, OLD, READY) == []


def test_each_partition_is_opened_again_also_if_another_one_was_opened_meanwhile() -> None:
    """A rebalance, or an aborted write, opens some partitions of a topic before the watch has noticed the new one."""
    topics = Topics(OLDER)
    commits = {each: Checkpoint(40, "") for each in (OLD, ADDED)}
    first = of_topic(ControlState(), topics, commits)
    first.positions([OLD])
    topics.mark = PRESENT
    assert first.positions([OLD], [OLD]) == {OLD: Checkpoint(40, "")}, "an aborted write opens no new topic"
    assert first.positions([ADDED], [OLD]) == {ADDED: None}, "its offset names no topic, and this process has read both"
    assert noticed(first, OLD, ADDED) == [OLD]
    first.close(OLD)
    assert first.positions([OLD], [ADDED]) == {OLD: None}
    assert noticed(first, OLD, ADDED) == []


def test_a_start_at_the_end_of_an_older_topic_is_void() -> None:
    """Its first commit may have come, or not."""
    for commits in ({}, {OLD: Checkpoint(90, "")}):
        topics = Topics(OLDER)
        first = of_topic(ControlState(), topics, {})
        first.positions([OLD])
        assert first.source(OLD) == (90, True)
        topics.mark = PRESENT
        assert noticed(first, OLD) == [OLD]
        first.close(OLD)
        assert isinstance(first._reader, StoredOffsets)
        first._reader.commits = dict(commits)
        assert first.positions([OLD]) == {OLD: None}
        assert first.source(OLD) == (3, False)


def test_what_another_member_has_noted_meanwhile_counts() -> None:
    """The control topic is read before it is decided where a partition starts."""
    control = Known(ControlState(exists=True, level=3, committed={OLD: 40}, marks={OLD: OLDER}))
    first = FirstOffsets(StoredOffsets(ends={OLD: (3, 90)}), "latest", control, Topics(PRESENT))
    assert first.positions([OLD]) == {OLD: None}
    assert first.source(OLD) == (3, False)


def test_a_new_topic_with_more_partitions_is_read_from_their_starts() -> None:
    """The group has never read those that the older one did not have."""
    state = ControlState(sources={"orders": 3}, marks={"orders": OLDER})
    first = of_topic(state, Topics(PRESENT), {})
    first.positions([ADDED])
    assert first.source(ADDED) == (3, False)


def test_a_saved_position_of_an_older_topic_is_void_whatever_its_record_says() -> None:
    """The commit that it was read from may have been made by a process that had not noticed the new topic."""
    saved: dict[tuple[str, int], Checkpoint] = {OLD: Checkpoint(40, marked(OLDER, ""))}
    first = of_topic(ControlState(committed={OLD: 40}, saved=saved, marks={OLD: PRESENT}), Topics(PRESENT), {})
    assert first.positions([OLD]) == {OLD: None}
    assert first.source(OLD) == (3, False)


def test_a_broker_that_lags_does_not_bring_an_older_topic_back() -> None:
    """Else the offsets of the present one would be void."""
    topics = Topics(OLDER)
    first = of_topic(ControlState(), topics, {})
    first.positions([OLD])
    topics.mark = PRESENT
    first.close(OLD)
    first.positions([OLD])
    topics.mark = OLDER
    assert first.changed(["orders"], [OLD]) == []
    first.close(OLD)
    assert isinstance(first._reader, StoredOffsets)
    first._reader.commits[OLD] = Checkpoint(40, marked(PRESENT, ""))
    assert first.positions([OLD]) == first._reader.commits


def test_an_older_topic_that_a_lagging_broker_has_named_is_left_again() -> None:
    """One partition was opened with its answer."""
    topics = Topics(PRESENT)
    point = Checkpoint(40, marked(PRESENT, ""))
    first = of_topic(ControlState(), topics, {OLD: point, ADDED: point})
    first.positions([OLD])
    topics.mark = OLDER
    assert first.positions([ADDED], [OLD]) == {ADDED: None}
    topics.mark = PRESENT
    assert noticed(first, OLD, ADDED) == [ADDED]
    first.close(ADDED)
    assert first.positions([ADDED], [OLD]) == {ADDED: point}
    assert noticed(first, OLD, ADDED) == []


@pytest.mark.parametrize("level", [2, 3])
def test_an_aborted_write_does_not_bring_an_older_offset_back(level: int) -> None:
    """Until an offset of the new topic is committed, also one that names no topic, or one that starts at its end."""
    topics = Topics(OLDER)
    control = Known(ControlState(exists=True, level=level))
    commits = {OLD: Checkpoint(40, "")}
    reader = StoredOffsets(commits, ends={OLD: (3, 90)})
    first = FirstOffsets(reader, "latest", control, topics)
    first.positions([OLD])
    topics.mark = PRESENT
    assert noticed(first, OLD) == [OLD]
    first.close(OLD)
    for owned in ((), (OLD,), (OLD,)):
        assert first.positions([OLD], owned) == {OLD: None}
        assert first.committed_now([OLD]) == {OLD: None}, "a halted partition does not go on there either"
        assert (first.expired(OLD), first.source(OLD)) == (None, (3, False))
    first.note_first_offsets({OLD: 41})
    reader.commits = {OLD: Checkpoint(41, "")}
    assert first.positions([OLD], [OLD]) == reader.commits
    reader.commits = {}
    first.positions([OLD], [OLD])


@pytest.mark.parametrize("level", [2, 3])
def test_an_offset_without_a_topic_beside_a_birth_in_an_older_one_is_void(level: int) -> None:
    """A process of a group below level 3 died before it noticed the new topic. What it commits is not saved either."""
    control = Known(ControlState(exists=True, level=level, committed={OLD: 7}, marks={OLD: OLDER}))
    reader = StoredOffsets({OLD: Checkpoint(40, "")}, ends={OLD: (3, 90)})
    first = FirstOffsets(reader, "latest", control, Topics(PRESENT))
    assert first.positions([OLD]) == {OLD: None}
    assert first.source(OLD) == (3, False)
    first.save([OLD])
    assert control.saved == {}


def test_a_new_topic_is_read_while_the_control_topic_is_away() -> None:
    """This process knows by itself that its partitions had another one."""
    topics = Topics(OLDER)
    control = Known(ControlState(exists=True, level=3))
    first = FirstOffsets(StoredOffsets({OLD: Checkpoint(40, "")}, ends={OLD: (3, 90)}), "latest", control, topics)
    first.positions([OLD])
    topics.mark, control.unreadable = PRESENT, "no answer"
    assert noticed(first, OLD) == [OLD]
    first.close(OLD)
    assert (first.positions([OLD]), first.unknown) == ({OLD: None}, {})
    assert first.source(OLD) == (3, False)


def test_another_cluster_is_no_new_topic() -> None:
    """A mirror has copied the offsets. The partition is opened again, where the group stands there."""
    topics = Topics(OLDER)
    first = of_topic(ControlState(), topics, {OLD: Checkpoint(40, "")})
    first.positions([OLD])
    topics.mark = ELSEWHERE
    assert noticed(first, OLD) == [OLD]
    first.close(OLD)
    assert first.positions([OLD]) == {OLD: Checkpoint(40, "")}


def test_a_partition_that_does_not_exist_is_left_out_until_it_does() -> None:
    """A static member gets its former assignment back, also that of a topic which has fewer partitions now."""
    topics = Topics(PRESENT)
    topics.partitions = 2
    first = of_topic(ControlState(), topics, {OLD: Checkpoint(40, ""), ADDED: Checkpoint(7, "")})
    assert (first.positions([OLD, ADDED]), first.gone) == ({OLD: Checkpoint(40, "")}, {ADDED})
    assert noticed(first, OLD) == []
    topics.partitions = 3
    assert noticed(first, OLD) == [ADDED]
    assert (first.positions([ADDED]), first.gone) == ({ADDED: Checkpoint(7, "")}, set())


def test_a_partition_is_noted_again_with_its_topic() -> None:
    """An older version has noted it without, or it was noted of an older topic."""
    state = ControlState(committed={OLD: 3, ADDED: 3}, marks={ADDED: PRESENT})
    first = of_topic(state, Topics(PRESENT), {OLD: Checkpoint(4, ""), ADDED: Checkpoint(4, "")})
    first.positions([OLD, ADDED])
    first.note_first_offsets({OLD: 4, ADDED: 4})
    assert isinstance(first._control, Known)
    assert first._control.committed == {OLD: 4}
