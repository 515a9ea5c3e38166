import pytest

from kafka_redelivery.topology.wire.progress import Checkpoint, Progress
from kafka_redelivery.topology.wire.progress_metadata import METADATA_LIMIT
from kafka_redelivery.topology.wire.topic_mark import MARK_LENGTH, is_other_topic, is_void, split_mark, topic_mark

OLDER, PRESENT = topic_mark("cluster", "1hKXCvRbTX6ma0rDzzr3cQ"), topic_mark("cluster", "k0dZDxdIRR2jSpDlFlDV1Q")
ELSEWHERE = topic_mark("mirror", "k0dZDxdIRR2jSpDlFlDV1Q")


def test_a_mark_is_short_and_shows_the_beginning_of_the_topics_id() -> None:
    """An operator finds the topic by it."""
    assert len(OLDER) == MARK_LENGTH
    assert OLDER[4:] == "1hKXCvRb"
    assert topic_mark("c", "a+b/cdefghijklmnopqrst") == topic_mark("c", "a-b_cdefghijklmnopqrst")
    assert OLDER[:4] == PRESENT[:4] != ELSEWHERE[:4]


@pytest.mark.parametrize(("cluster", "topic"), [("cluster", "A" * 22), ("", "1hKXCvRbTX6ma0rDzzr3cQ"), ("c", "")])
def test_brokers_without_ids_give_no_mark(cluster: str, topic: str) -> None:
    """An id of zeros is that of no topic."""
    assert topic_mark(cluster, topic) == ""


def test_only_topics_of_one_cluster_are_told_apart() -> None:
    """A mirror copies a topic, and commits its offsets; what is unknown is believed."""
    assert is_other_topic(OLDER, PRESENT)
    for remembered in (PRESENT, ELSEWHERE, ""):
        assert not is_other_topic(remembered, PRESENT)
    assert not is_other_topic(OLDER, "")


def test_each_commit_names_its_topic_and_is_read_back() -> None:
    """In order and out of order; the progress beside the mark is that of the other formats."""
    progress = Progress(5, mark=OLDER)
    for offset in range(5, 9):
        progress.track(offset)
    assert progress.checkpoint() == Checkpoint(5, f"p5:{OLDER}")
    progress.complete([6])
    for point in (Checkpoint(5, f"p5:{OLDER}"), progress.checkpoint()):
        assert split_mark(point.metadata)[0] == OLDER
        assert (is_void(point.metadata, PRESENT), is_void(point.metadata, OLDER)) == (True, False)
        restored = Progress.restore(point.offset, point.metadata)
        assert restored.mark == OLDER
        assert [restored.track(offset) for offset in range(5, 9)] == [
            True,
            split_mark(point.metadata)[1] == "",
            True,
            True,
        ]


@pytest.mark.parametrize("metadata", ["", "p1:AAAA", "of another tool", "p5:short"])
def test_other_metadata_names_no_topic(metadata: str) -> None:
    """It stays as it is."""
    assert split_mark(metadata) == ("", metadata)
    assert not is_void(metadata, PRESENT)


def test_a_full_text_with_a_mark_fits_with_the_byte_that_the_client_adds() -> None:
    """In the worst pattern, as many offsets as the partition takes."""
    progress = Progress(0, mark=OLDER)
    while progress.can_track(2):
        progress.track(progress.next_offset)
        progress.track(progress.next_offset)
        progress.complete([progress.next_offset - 1])
    assert METADATA_LIMIT - 100 < len(progress.checkpoint().metadata) + 1 <= METADATA_LIMIT
