"""A mirror that translates committed offsets and copies their metadata makes no record be skipped."""

from tests.scenarios.running import Group, exactly, leave_the_first_unfinished
from tests.scenarios.waiting import until


def test_metadata_beside_another_offset_is_ignored(group: Group) -> None:
    """It says which records behind its own offset are finished. All records behind the other one are delivered."""
    leave_the_first_unfinished(group)
    offset, metadata = group.cluster.committed(group.name, group.source)[group.source, 0]
    assert offset == 0

    until(lambda: not group.cluster.members(group.name), "its session has ended")
    group.cluster.commit(group.name, group.source, 0, 20, metadata)
    assert group.cluster.committed(group.name, group.source)[group.source, 0] == (20, metadata)
    group.send([["ok"]] * 20, first=20)
    successor = group.worker()
    until(lambda: group.outputs() == exactly(range(1, 40)), "all records behind the offset are handled")
    assert f"{group.source}-0: the metadata of the committed offset 20 belongs to another offset" in successor.log
    group.stop()
