"""A tier that was created again begins without what was known of the older one."""

from collections.abc import Iterable, Mapping

from kafka_redelivery.consumers.flow.control import NoTopics
from kafka_redelivery.consumers.flow.first_offsets import FirstOffsets
from kafka_redelivery.topology.wire.progress import Checkpoint
from kafka_redelivery.topology.wire.topic_mark import topic_mark
from kafka_redelivery.transport.clients.topic_watch import FoundTopic
from kafka_redelivery.transport.errors import RefusalCause, RefusedRecord
from kafka_redelivery.transport.protocols import ProducerRecord
from tests.unit.consumers.flow.test_topics_created_again import OLDER, PRESENT, Topics
from tests.unit.consumers.scheduler.test_scheduler import COUNTS, MIXED, QUICK, SLOW, Running, due, refused


class Answers(Topics):
    """Topics that are looked at again in each turn."""

    def poll(self, _topics: Iterable[str], _known: Mapping[str, FoundTopic]) -> Mapping[str, FoundTopic]:
        return {topic: FoundTopic(count, self.mark) for topic, count in COUNTS.items()}


def notice(running: Running, topics: Answers) -> None:
    """Two answers in a row name the new topic."""
    topics.mark = PRESENT
    running.scheduler.topics._watch = topics
    for _ in range(2):
        running.scheduler._turn()
    running.scheduler.topics._watch = NoTopics()


def test_refusals_and_halts_of_the_older_tier_are_forgotten() -> None:
    """They would dead-letter a good record of the new one, or hold it."""
    assert topic_mark("here", 22 * "o") == OLDER
    running = Running(refused(0))
    topics = Answers(OLDER)
    running.reader.ends = dict.fromkeys((QUICK, SLOW, MIXED), (0, 1))
    running.scheduler._assigned._first_offsets = FirstOffsets(running.reader, topics=topics)
    running.scheduler.assigned([QUICK, SLOW, MIXED])
    running.turn(due(QUICK, 0))
    running.scheduler._stops.refuse(
        QUICK, 0, ProducerRecord("DLQ.orders", 0, None, b"0"), RefusedRecord(0, "too large", RefusalCause.TOO_LARGE)
    )
    assert running.scheduler._tiers[QUICK].refusals[0]

    running.reader.paused = {QUICK}
    notice(running, topics)
    assert running.scheduler._stops.unread == frozenset()
    assert 0 not in running.scheduler._tiers[QUICK].refusals
    assert running.reader.paused == set()
    assert running.reader.sought[-3:] == [(each, 0) for each in (QUICK, SLOW, MIXED)]
    running.scheduler._engine.deadline.succeeded()
    running.turn(due(QUICK, 0))
    assert running.topics()[-1] == ["billing.ready.orders"]
    [(_, checkpoints)] = running.writer.confirmed[-1:]
    assert checkpoints[QUICK] == Checkpoint(1, "")
