"""A backlog of a table is appended by as many tasks as it is worth."""

import pytest

from kafka_redelivery.pipeline.stream.sink_table import append_tasks


@pytest.mark.parametrize(
    ("left", "files", "cores", "tasks"),
    [(0, 1, 8, 1), (99_999, 1, 8, 1), (100_000, 1, 8, 2), (10_000_000, 1, 8, 8), (10_000_000, 12, 8, 12)],
)
def test_few_records_are_not_worth_a_second_file(left: int, files: int, cores: int, tasks: int) -> None:
    """Many have one task for each core, or what is configured if that is more."""
    assert append_tasks(left, files=files, cores=cores) == tasks
