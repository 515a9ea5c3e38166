"""Groups may share the folder of ``pipeline.checkpoint``: each continues from a checkpoint of its own."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.streaming import prepare, run
from tests.scenarios.running import Group, exactly

pytestmark = [pytest.mark.spark, pytest.mark.long]


def test_two_groups_with_one_checkpoint_folder(spark: SparkSession, group: Group, tmp_path: Path) -> None:
    """Neither group removes the other's checkpoint. One that an earlier version made is continued by its owner."""
    prepare(group)
    group.send([["ok"]] * 5)
    run(group, spark)
    folder = group.folder / "checkpoint"
    (made,) = folder.iterdir()
    made.rename(folder / "stream")  # its name in earlier versions
    first = (folder / "stream" / "metadata").read_text(encoding="utf-8")
    other = Group(group.cluster, f"{group.name}.b", tmp_path / "other")
    other.folder.mkdir()
    prepare(other, pipeline={"checkpoint": str(folder)})
    other.send([["ok"]] * 5)

    run(other, spark)

    assert other.outputs() == exactly(range(5))
    assert (folder / "stream" / "metadata").read_text(encoding="utf-8") == first
    assert sorted(each.name for each in folder.iterdir()) == sorted(["stream", f"{other.name}.stream"])
    second = (folder / f"{other.name}.stream" / "metadata").read_text(encoding="utf-8")

    group.send([["ok"]] * 5, first=5)
    run(group, spark)

    assert group.outputs() == exactly(range(10))
    assert (folder / "stream" / "metadata").read_text(encoding="utf-8") == first
    assert (folder / "stream" / "commits" / "1").exists(), "it was not continued"
    assert (folder / f"{other.name}.stream" / "metadata").read_text(encoding="utf-8") == second
